"""Names and texts as SQL writes them, in quotes, whatever characters they have."""

from __future__ import annotations


def quoted_name(name: str) -> str:
    """Return the name of a column or table in SQL."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a literal in SQL."""
    return "'" + text.replace("'", "''") + "'"
