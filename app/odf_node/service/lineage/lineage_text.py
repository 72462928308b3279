"""Rewriting of Spark SQL that the parser of column lineage cannot read.

The result needs to preserve only the origin of values: `window(time, …)` becomes an ordinary
function, and an as-of join an ordinary join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

WINDOW = "odf_window"
"""The name for `window` in the parsed text, because `window` is a keyword of the parser."""


def parsed_spark(sql: str, dialect: str) -> Any:
    """Return the syntax tree of a query, with fields of a window replaced by its time column."""
    import sqlglot
    from sqlglot import exp

    tree = sqlglot.parse_one(_readable(sql, sqlglot.tokenize(sql, dialect=dialect)), dialect)
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        times = [
            each.expressions[0]
            for each in (group.find_all(exp.Anonymous) if group else ())
            if each.name == WINDOW and each.expressions
        ]
        for column in list(select.find_all(exp.Column)) if times else ():
            if column.parent_select is select and WINDOW in (column.table, column.name):
                time = times[0].copy()
                column.replace(exp.alias_(time, column.name) if column.parent is select else time)
        for each in list(select.selects):
            if isinstance(each, exp.Anonymous) and each.name == WINDOW:
                each.replace(exp.alias_(each.copy(), WINDOW))
    return tree


def _readable(sql: str, tokens: Sequence[Any]) -> str:
    parts, done = [], 0
    for start, end, text in _changes(tokens):
        parts += [sql[done:start], text]
        done = end
    return "".join([*parts, sql[done:]])


def _changes(tokens: Sequence[Any]) -> Iterator[tuple[int, int, str]]:
    """Yield the replacements: start, end, and the new text."""
    words = ["" if _is_quoted(token) else token.text.upper() for token in tokens] + [""] * 2
    skip = 0
    for at, token in enumerate(tokens):
        if at < skip:
            continue
        if words[at] == "ASOF" and words[at + 1] == "JOIN":
            yield token.start, token.end + 1, ""
        elif words[at] == "MATCH_CONDITION" and words[at + 1] == "(":
            skip = _behind(words, at + 1)
            yield token.start, tokens[skip - 1].end + 1, ""
        elif words[at] == "WINDOW" and words[at + 2] != "AS":  # else WINDOW w AS (…)
            yield token.start, token.end + 1, WINDOW


def _behind(words: Sequence[str], at: int) -> int:
    """Return the index after the parenthesis that closes the one at `at`."""
    depth = 0
    for place in range(at, len(words) - 2):
        depth += {"(": 1, ")": -1}.get(words[place], 0)
        if depth == 0:
            return place + 1
    return len(words) - 2


def _is_quoted(token: Any) -> bool:
    return token.token_type.name in ("STRING", "RAW_STRING", "IDENTIFIER")
