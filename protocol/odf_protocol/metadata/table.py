"""Base classes of all ODF structures: frozen, keyword-only, with camelCase names in text."""

from __future__ import annotations

from msgspec import Struct


class Table(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename="camel",
    gc=False,
):
    """One table of the wire model: it has the name of the class, and slots in field order.

    Tables are frozen and so form no cycles; the garbage collector does not track them.
    """


class Variant(Table, frozen=True, tag_field="kind"):
    """A table that is a variant of a union; its text form includes `kind`."""
