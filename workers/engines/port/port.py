"""The engine port: runs queries over files it is given; sees no chain, store or network.

Promises, each a test in `tests/conformance/engine.py`: equal requests give equal rows in
equal order; a query that is wrong is a value, not an exception; repeating is harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from odf_node.protocol.errors import BadInput
from odf_node.protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    TransformRequest,
    TransformResponse,
)
from odf_node.protocol.metadata.transforms import SqlQueryStep, Transform

INPUT = "input"
"""The view of a raw query's input."""
QUERY_SECONDS = 3600.0
"""How long one query may take, unless a setting says so."""
ROW = "odf row"
"""A column engines may add: which input row a row comes from. Not written."""
ROW_BITS = 56
"""Rows of different inputs differ in the bits from here on; offsets stay below."""
ORDER_OF_CHANGES = (
    "ORDER BY cannot be applied here: the inputs hold retractions or corrections, whose meaning "
    "lies in their order"
)
_BEFORE_FIRST_WORD = re.compile(r"(?s)(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*")


class InvalidQuery(BadInput):
    """A query that cannot be run; the message says what is wrong with it."""


class QueryTooSlow(InvalidQuery):
    """A query that did not end in its time. Engines have no answer of their own for that."""

    def __init__(self, seconds: float, *, processor: bool = False) -> None:
        setting = "ODF_WORKER_QUERY_CPU_S" if processor else "ODF_WORKER_QUERY_S"
        kind = " of processor time" if processor else ""
        super().__init__(
            f"{_TOO_SLOW} {seconds:g} seconds{kind} ({setting})", seconds=seconds, setting=setting
        )


class QueryTooLarge(InvalidQuery):
    """A query that took more memory than a setting allows."""

    def __init__(self, said: str, setting: str) -> None:
        super().__init__(f"{_TOO_LARGE} ({setting}): {said}", setting=setting)


_TOO_SLOW = "the query did not end within"
_TOO_LARGE = "the query needs more memory than it may take"


def is_beyond_limits(answer: InvalidQuery) -> bool:
    """Whether this says so, and another machine may not; answers are messages, maybe from afar."""
    return answer.message.startswith((_TOO_SLOW, _TOO_LARGE))


class UnsupportedEngine(BadInput):
    """A query asks for an engine this node does not run."""


class NotIncremental(InvalidQuery):
    """A query whose rows depend on rows of other iterations, in a way that is not kept track of."""


def not_incremental(what: str) -> NotIncremental:
    """The refusal of a construct, said as `what`."""
    return NotIncremental(
        f"the query has {what}, whose rows depend on those of other iterations; computed from new "
        "rows alone they would be wrong"
    )


class Listener:
    """Hears of a running query. This one keeps it to itself."""

    def progress(self) -> None:
        """The query is alive; any number of times."""

    def warning(self, text: str) -> None:
        """Something its author should know, though it runs."""

    def stops(self, stop: Callable[[], None]) -> None:
        """How the query is stopped, by any thread, when nobody waits for its answer any more."""


QUIET = Listener()


@runtime_checkable
class Prepared(Protocol):
    """An engine whose first query would wait for something."""

    def prepare(self) -> None:
        """Begin to make it ready; does not wait for it."""


class Engine(Protocol):
    """One query engine. `name` and `version` are what an execution is pinned to."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def execute_raw_query(
        self, request: RawQueryRequest, listener: Listener = QUIET
    ) -> RawQueryResponse:
        """Query the input files as the view `input`; write the rows to the output path.

        The output is one Parquet file, also when it has no rows.
        """
        ...

    def execute_transform(
        self, request: TransformRequest, listener: Listener = QUIET
    ) -> TransformResponse:
        """Run one iteration of a derivative dataset over the new rows of its inputs.

        The slice is written to `new_data_path`, also when it has no rows, since it tells the
        schema; what the next iteration has to know to `new_checkpoint_path`, if anything.
        """
        ...


def engine_for(transform: Transform, engines: Sequence[Engine]) -> Engine:
    """The engine a transform asks for (names without case). Raises `UnsupportedEngine`."""
    wanted = transform.engine.lower()
    for engine in engines:
        if engine.name == wanted:
            return engine
    available = list(dict.fromkeys(engine.name for engine in engines))
    raise UnsupportedEngine(
        f"the query asks for the engine {transform.engine!r}; this node runs "
        f"{', '.join(available)}: rewrite the query for one of them",
        engine=transform.engine,
        available=available,
    )


def steps_of(transform: Transform) -> Sequence[SqlQueryStep]:
    """The steps of a transform; the last one is the result and needs no name.

    Raises:
        InvalidQuery: there is none, or a step before the last has no name.
    """
    steps = transform.queries or ()
    if not steps and transform.query:
        steps = (SqlQueryStep(query=transform.query),)
    if not steps:
        raise InvalidQuery("the transform has no query")
    for step in steps[:-1]:
        if step.alias is None:
            raise InvalidQuery("only the last query may have no alias")
    return steps


def check_begins_as_query(text: str) -> None:
    """Raises `InvalidQuery` unless the first word is SELECT or WITH."""
    before = _BEFORE_FIRST_WORD.match(text)
    first = text[before.end() if before else 0 :][:6].upper()
    if not first.startswith(("SELECT", "WITH")):
        raise InvalidQuery("only SELECT queries are accepted")
