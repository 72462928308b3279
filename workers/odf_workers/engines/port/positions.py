"""Find where a transform is wrong: which of its queries, which line, which column.

Each engine reports a position in a different form, or only names the part of the query that it
means; then this module searches the text for that name. A response of an engine holds only a
message, so the message begins with the position:

    query 2 (`ranked`), line 3, column 14: No field named dest
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from odf_protocol.errors import BadInput
from odf_protocol.metadata.transforms import SqlQueryStep

from .port import InvalidQuery

Where = tuple[int, int]
"""Line and column, both counted from 1."""
_SAID = re.compile(
    r"(?:query (?P<query>\d+)(?: \(`(?P<queryAlias>[^`]*)`\))?, )?"
    r"line (?P<line>\d+), column (?P<column>\d+): "
)
_TOLD = (
    (re.compile(r"\bline (\d+),? pos (\d+)\b"), 1),  # Spark counts columns from 0
    (re.compile(r"\bline:? (\d+)[,;]? (?:col|column|pos|position):? (\d+)\b", re.IGNORECASE), 0),
)
_NAMED = re.compile(
    r"`(\w+)`|\b(?:table|function) '([^']+)'"
    r"|\b(?:named|function|functions|aggregate) ([\w.]+)"
)
"""The names that a message mentions."""
_WRITTEN = {
    "an aggregate": r"\bgroup\s+by\b",
    "a join": r"\bjoin\b",
    "a window function": r"\bover\b",
    "DISTINCT": r"\bdistinct\b|\bunion\b(?!\s+all\b)",
    "LIMIT": r"\blimit\b",
    "a subquery": r"\(\s*select\b",
    "subqueries": r"\(\s*select\b",
    "OFFSET": r"\boffset\b",
    "EXCEPT": r"\bexcept\b",
    "INTERSECT": r"\bintersect\b",
    "PIVOT": r"\bpivot\b",
    "ORDER BY": r"\border\s+by\b",
    "SORT BY": r"\bsort\s+by\b",
    "DISTRIBUTE BY": r"\b(?:distribute|cluster)\s+by\b",
    "TABLESAMPLE": r"\btablesample\b",
    "a hint": r"/\*\+",
    "LATENESS": r"\blateness\b",
}
"""For each construct that may begin a message: the pattern of its SQL."""
_NO_CODE = re.compile(r"(?s)--[^\n]*|/\*(?!\+).*?\*/|'(?:\\.|''|[^'\\])*'")


def told(message: str) -> Where | None:
    """Return the position that an engine's message states, if it states one."""
    for pattern, shift in _TOLD:
        if found := pattern.search(message):
            return int(found[1]), int(found[2]) + shift
    return None


def located(text: str, message: str) -> Where | None:
    """Return where the query has the construct or name that a message mentions, if anywhere.

    The search ignores case, and skips string literals and comments.
    """
    code = _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for pattern in _patterns(message):
        if found := re.search(pattern, code, re.IGNORECASE):
            return line_and_column(text, found.start())
    return None


def _patterns(message: str) -> Iterator[str]:
    subject = re.split(r"[:,]", message, maxsplit=1)[0]  # the rest is advice
    for what, pattern in _WRITTEN.items():
        if what in subject:
            yield pattern
    for match in _NAMED.finditer(message):
        name = next(filter(None, match.groups())).rstrip(".")
        yield rf"(?<!\w){re.escape(name.rsplit('.', 1)[-1])}(?!\w)"


def line_and_column(text: str, at: int) -> Where:
    """Return the line and column of the character at index `at`."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


@contextmanager
def blamed_on(steps: Sequence[SqlQueryStep], number: int | None = None) -> Iterator[None]:
    """Add a position to an `InvalidQuery` that the block raises, unless it has one: the position
    that the engine states, else that of the construct or name in the message, else the beginning
    of the query.

    Without `number`, the error may be in any of the steps.
    """
    try:
        yield
    except InvalidQuery as bad:
        if "line" in bad.facts:
            raise
        numbers = range(len(steps)) if number is None else (number,)
        for at in numbers:
            where = told(bad.message) if number is not None else None
            where = where or located(steps[at].query, bad.message)
            if where is not None:
                raise placed(bad, steps, at, where) from None
        raise placed(bad, steps, numbers[-1]) from None


def placed(
    bad: InvalidQuery, steps: Sequence[SqlQueryStep], number: int, where: Where | None = None
) -> InvalidQuery:
    """Return the same error with its position as facts, by default the first word of the query.

    `number` counts from 0. The fact `query` counts from 1, and is set only if there are several
    steps.
    """
    text, alias = steps[number].query, steps[number].alias
    line, column = where or line_and_column(text, len(text) - len(text.lstrip()))
    facts: dict[str, Any] = {"line": line, "column": column}
    if len(steps) > 1:
        facts |= {"query": number + 1} | ({} if alias is None else {"queryAlias": alias})
    return type(bad)(bad.message, **bad.facts, **facts)


def written_at(
    bad: InvalidQuery, steps: Sequence[SqlQueryStep], text: str, where: Where
) -> InvalidQuery:
    """Return the same error with its position in the step that has this text, if any step has."""
    for number, step in enumerate(steps):
        if step.query == text:
            return placed(bad, steps, number, where)
    return bad


def said(bad: BadInput) -> str:
    """Return the message, preceded by the position if that is known."""
    facts = bad.facts
    if "line" not in facts:
        return bad.message
    alias = f" (`{facts['queryAlias']}`)" if "queryAlias" in facts else ""
    query = f"query {facts['query']}{alias}, " if "query" in facts else ""
    return f"{query}line {facts['line']}, column {facts['column']}: {bad.message}"


def place_of(message: str) -> dict[str, Any]:
    """Return the position in a message as facts: as `said` writes it, or as an engine states it."""
    if found := _SAID.match(message):
        known = {key: value for key, value in found.groupdict().items() if value is not None}
        return {key: v if key == "queryAlias" else int(v) for key, v in known.items()}
    if where := told(message):
        return dict(zip(("line", "column"), where, strict=True))
    return {}


def without_place(message: str) -> str:
    """Return the message without the position that `said` writes before it."""
    found = _SAID.match(message)
    return message[found.end() :] if found else message
