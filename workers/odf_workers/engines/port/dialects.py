"""Words of SQL that mean something else on Spark than on the engine of queries, DataFusion.

An author tries a query on one engine and schedules it on the other. `docs/sql-differences.md` shows
what both make of hundreds of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from odf_protocol.metadata.transforms import SqlQueryStep

from .port import InvalidQuery
from .positions import line_and_column, placed

_QUOTED = re.compile(
    r"(?s)--[^\n]*|/\*.*?\*/|'(?:\\.|''|[^'\\])*'|`(?:``|[^`])*`|\"(?P<text>(?:\\.|\"\"|[^\"\\])*)\""
)
"""Matches what has quotes or is a comment; `text` is what is in double quotes."""
_OTHER = re.compile(
    r"(?i)\b(?P<call>array_position|array_remove|array_sort|atan2|concat|date_format|from_unixtime|"
    r"initcap|log|regexp_replace|to_char)\s*\(|\b(?P<part>dow|second)\s+from\b|(?P<sign>/)"
)
"""Matches what often has another value in queries of readers, without an error."""


def refuse_quoted_columns(steps: Sequence[SqlQueryStep], columns: Collection[str]) -> None:
    """Refuse a query for Spark in which a text in double quotes is also the name of a column: Spark
    would store that word in every row, while other engines take it for the column.

    Raises:
        InvalidQuery.
    """
    names = {name.casefold() for name in columns}
    for number, step in enumerate(steps):
        for found in _QUOTED.finditer(step.query):
            text = found["text"]
            if text is not None and text.casefold() in names:
                bad = InvalidQuery(
                    f'for this engine "{text}" in double quotes is a text, not the column of that '
                    f"name: write `{text}` for the column, '{text}' for the text"
                )
                raise placed(bad, steps, number, line_and_column(step.query, found.start()))


def with_other_meaning(steps: Sequence[SqlQueryStep]) -> list[str]:
    """Return the words of a query for Spark that often have another value in queries of readers."""
    found = [
        match[match.lastgroup or 0].lower()
        for step in steps
        for match in _OTHER.finditer(_QUOTED.sub(" ", step.query))
    ]
    return sorted(set(found))
