"""Where in a query an engine found something wrong, as far as its message tells."""

from __future__ import annotations

import re

_PATTERNS = (
    re.compile(r"\(line (?P<line>\d+), pos(?:ition)? (?P<column>\d+)\)", re.IGNORECASE),
    re.compile(r"line:? (?P<line>\d+)[,;]? (?:col|column|pos):? (?P<column>\d+)", re.IGNORECASE),
)
_FROM_ZERO = _PATTERNS[0]
"""Spark counts columns from 0."""


def position_of(message: str) -> dict[str, int]:
    """Facts `line` and `column`, both from 1; none if the message has no position."""
    for pattern in _PATTERNS:
        if found := pattern.search(message):
            shift = 1 if pattern is _FROM_ZERO else 0
            return {"line": int(found["line"]), "column": int(found["column"]) + shift}
    return {}
