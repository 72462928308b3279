"""Forms in which SQL of the reference node names a dataset → the names of tables here.

Its `to_table` is a table function for the state of a dataset, and its tables are in the schema
`kamu.kamu`, as programs for databases write it, too: with catalogue and schema or the schema alone,
in quotes or not. Both would leave a plan that cannot be checked, so the text is changed.
"""

from __future__ import annotations

from typing import Any

import re2

from .messages import View

_TOKEN = re2.compile(
    r"'(?:''|[^'])*(?:'|\z)|\"(?:\"\"|[^\"])*(?:\"|\z)|`[^`]*(?:`|\z)|--[^\n]*"
    r"|(?i:\b(?P<before>(?:from|join)\s+)(?:(?:kamu|\"kamu\"|`kamu`)\s*\.\s*){1,2})"
    r"|(?i:\b(?P<call>to_table)\s*\(\s*"
    r"(?:'(?P<text>[^'\"@]+)'|\"(?P<quoted>[^\"@]+)\"|(?P<bare>[a-z_][a-z0-9_]*))\s*\))"
)
"""A text, a quoted name or a comment, in which nothing is changed; or a form of the reference."""
_UNSURE = re2.compile(r"(?i)/\*|\$|\be'")
"""Beginnings of comments that nest, and of texts with an end or an escape of their own."""


def with_own_names(query: str) -> str:
    """Return the query with `"name@state"` in place of `to_table(name)`, `to_table('name')` and
    `to_table("name")`, and without `kamu.kamu.` or `kamu.` before names of tables.

    A query in which comments or texts may have other forms than -- and '…' is returned as it is.
    """
    if _UNSURE.search(query):
        return query
    changed: str = _TOKEN.sub(_own, query)
    return changed


def _own(found: Any) -> str:
    if found["before"] is not None:
        return str(found["before"])
    if found["call"] is None:
        return str(found[0])
    return f'"{found["text"] or found["quoted"] or found["bare"]}@{View.STATE}"'
