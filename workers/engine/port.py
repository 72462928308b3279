"""The engine port: runs queries over files it is given; sees no chain, store or network.

Promises, each a test in `tests/conformance/engine.py`: equal requests give equal rows in
equal order; a query that is wrong is a value, not an exception; repeating is harmless.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from protocol.errors import BadInput
from protocol.metadata.engine import RawQueryRequest, RawQueryResponse
from protocol.metadata.transforms import SqlQueryStep, Transform

INPUT = "input"
"""The view of a raw query's input."""
_BEFORE_FIRST_WORD = re.compile(r"(?s)(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*")


class InvalidQuery(BadInput):
    """A query that cannot be run; the message says what is wrong with it."""


class UnsupportedEngine(BadInput):
    """A query asks for an engine this node does not run."""


class Engine(Protocol):
    """One query engine."""

    name: str
    version: str

    def execute_raw_query(self, request: RawQueryRequest) -> RawQueryResponse:
        """Query the input files as the view `input`; write the rows to the output path.

        The output is one Parquet file, also when it has no rows.
        """
        ...


def engine_for(transform: Transform, engines: Sequence[Engine]) -> Engine:
    """The engine a transform asks for (names without case). Raises `UnsupportedEngine`."""
    wanted = transform.engine.lower()
    for engine in engines:
        if engine.name == wanted:
            return engine
    available = [engine.name for engine in engines]
    raise UnsupportedEngine(
        f"preprocessing asks for the engine {transform.engine!r}; this node runs "
        f"{', '.join(available)}: rewrite the query for one of them",
        engine=transform.engine,
        available=available,
    )


def steps_of(transform: Transform) -> Sequence[SqlQueryStep]:
    """The steps of a transform; the last one is the result and needs no name."""
    if transform.queries:
        return transform.queries
    return (SqlQueryStep(query=transform.query),) if transform.query else ()


def check_begins_as_query(text: str) -> None:
    """Raises `InvalidQuery` unless the first word is SELECT or WITH."""
    before = _BEFORE_FIRST_WORD.match(text)
    first = text[before.end() if before else 0 :][:6].upper()
    if not first.startswith(("SELECT", "WITH")):
        raise InvalidQuery("only SELECT queries are accepted")
