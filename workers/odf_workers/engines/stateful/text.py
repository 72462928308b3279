"""Read the allowed lateness of a query, and rewrite temporal joins in its text for Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..port.port import InvalidQuery
from ..spark.catalyst import Catalyst, Node, items, kind, walk
from .clock import DAY
from .times import micros

LATENESS = "LATENESS"
DEFAULT_LATENESS = 7 * DAY
_TOKEN = re.compile(
    r"(?s)--[^\n]*|/\*.*?\*/|'(?:\\.|''|[^'\\])*'|\"(?:\\.|\"\"|[^\"\\])*\"|`(?:``|[^`])*`"
    r"|[A-Za-z_0-9.`]+|\s+|."
)
_NAME = r"(?:`(?:``|[^`])+`|\w+)(?:\s*\.\s*(?:`(?:``|[^`])+`|\w+))*"
_TEMPORAL = re.compile(
    rf"(?is)\bJOIN\s+(?P<table>{_NAME})\s+FOR\s+SYSTEM_TIME\s+AS\s+OF\s+(?P<time>{_NAME})"
    rf"(?:\s+AS)?\s+(?!ON\b)(?P<alias>`(?:``|[^`])+`|\w+)\s+(?=ON\b)"
)


def as_of_joins(text: str, event_times: dict[str, str]) -> str:
    """Rewrite `JOIN t FOR SYSTEM_TIME AS OF l.time r ON …` as Spark's `ASOF JOIN`.

    `event_times` has the event time column of each input that can be joined, by its alias.
    """
    if not re.search(r"(?i)\bSYSTEM_TIME\b", _without_quotes(text)):
        return text

    def rewritten(match: re.Match[str]) -> str:
        table = match["table"].strip("`")
        time = event_times.get(table)
        if time is None:
            raise InvalidQuery(f"{table!r} is joined AS OF a time but is no input of the query")
        alias = match["alias"]
        return (
            f"ASOF JOIN {match['table']} {alias} "
            f"MATCH_CONDITION ({match['time']} >= {alias}.`{time}`) "
        )

    hidden = _hidden(text)
    parts, end = [], 0
    for match in _TEMPORAL.finditer(text):
        if any(start < match.start() < stop for start, stop in hidden):
            continue
        parts += [text[end : match.start()], rewritten(match)]
        end = match.end()
    return "".join([*parts, text[end:]])


def lateness_of(catalyst: Catalyst, parsed: list[Node]) -> int:
    """Return the allowed lateness in microseconds, from `/*+ LATENESS('1 day') */` anywhere in the
    query, or the default."""
    found = set()
    for plan in parsed:
        for node in _everywhere(plan):
            if kind(node) == "UnresolvedHint" and str(node.name()).upper() == LATENESS:
                found.add(_interval(catalyst, items(node.parameters())))
    if len(found) > 1:
        raise InvalidQuery("LATENESS is given two values, but a transform has one allowed lateness")
    return found.pop() if found else DEFAULT_LATENESS


def _interval(catalyst: Catalyst, parameters: list[Node]) -> int:
    wrong = InvalidQuery("LATENESS takes a time as text: /*+ LATENESS('36 hours') */")
    if len(parameters) != 1 or kind(parameters[0]) != "Literal":
        raise wrong
    text = str(parameters[0].eval(None))
    if not re.fullmatch(r"\s*\d+\s+(second|minute|hour|day|week)s?\s*", text, re.IGNORECASE):
        raise wrong
    length = micros(catalyst.sql(f"interval {text}"))
    if length is None:
        raise wrong
    return length


def _everywhere(plan: Node) -> Iterator[Node]:
    """Yield the nodes of a parsed plan, including those of common table expressions."""
    for node in walk(plan):
        yield node
        if kind(node) == "UnresolvedWith":
            for pair in items(node.cteRelations()):
                yield from _everywhere(pair._2())


def _hidden(text: str) -> list[tuple[int, int]]:
    """Return the spans of comments and quoted text."""
    return [
        m.span() for m in _TOKEN.finditer(text) if m[0][:1] in "'\"" or m[0][:2] in ("--", "/*")
    ]


def _without_quotes(text: str) -> str:
    return "".join(m[0] for m in _TOKEN.finditer(text) if m[0][:1] not in "'\"")
