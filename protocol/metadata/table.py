"""Common bases of everything the ODF schemas describe: frozen, keyword-only, camelCase in text."""

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
    """One table of the wire model: the class name is its name, field order its slot order.

    Being frozen, tables form no cycles, so the garbage collector is spared them.
    """


class Variant(Table, frozen=True, tag_field="kind"):
    """A table that is one of a union; its text form carries `kind`."""
