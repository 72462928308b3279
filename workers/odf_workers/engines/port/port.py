"""The engine port: an engine runs queries over files; it sees no chain, store or network.

Every engine promises the following, and `tests/conformance/engine.py` tests each promise: equal
requests return equal rows in equal order; a wrong query gives a response, not an exception; a
request may be repeated without harm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from odf_protocol.errors import BadInput
from odf_protocol.metadata.engine import (
    RawQueryRequest,
    RawQueryResponse,
    TransformRequest,
    TransformResponse,
)
from odf_protocol.metadata.transforms import SqlQueryStep, Transform

SPARK = "spark"
"""Name of the engine that takes double quotes for a text."""
INPUT = "input"
"""Name of the view over the input of a raw query."""
QUERY_SECONDS = 3600.0
"""Default limit of the seconds that one query may take."""
ROW = "odf row"
"""Name of a hidden column that engines may add. It identifies the input row from which a row was
computed, and is not written to the slice."""
ROW_BITS = 56
"""A value of `ROW` holds the offset in this many low bits, and the input's number above them."""
ORDER_OF_CHANGES = (
    "ORDER BY cannot be applied here: the inputs hold retractions or corrections, whose meaning "
    "lies in their order"
)
NO_QUERY = "the transform has no query"
ONLY_QUERIES = "only SELECT queries are accepted"
_BEFORE_FIRST_WORD = re.compile(r"(?s)(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*")


class InvalidQuery(BadInput):
    """The query cannot be run; the message says what is wrong with it."""


class QueryTooSlow(InvalidQuery):
    """The query exceeded its time limit. The port has no other response for this case."""

    def __init__(self, seconds: float, *, processor: bool = False) -> None:
        setting, kind = "ODF_WORKER_QUERY_S", " of processor time" if processor else ""
        super().__init__(
            f"{_TOO_SLOW} {seconds:g} seconds{kind} ({setting})", seconds=seconds, setting=setting
        )


class QueryTooLarge(InvalidQuery):
    """The query took more memory than a setting allows."""

    def __init__(self, said: str, setting: str) -> None:
        super().__init__(f"{_TOO_LARGE} ({setting}): {said}", setting=setting)


_TOO_SLOW = "the query did not end within"
_TOO_LARGE = "the query needs more memory than it may take"


def is_beyond_limits(answer: InvalidQuery) -> bool:
    """Return whether the query exceeded a time or memory limit, so another machine may succeed.

    Only the message is compared: an error from a remote engine has lost its class.
    """
    return answer.message.startswith((_TOO_SLOW, _TOO_LARGE))


class UnsupportedEngine(BadInput):
    """A query requests an engine that this node does not run."""


class NotIncremental(InvalidQuery):
    """The rows of the query depend on rows of other iterations, and no state is kept for that."""


def not_incremental(what: str) -> NotIncremental:
    """Return the error that refuses a construct; `what` names it in the message."""
    return NotIncremental(
        f"the query has {what}, whose rows depend on those of other iterations; computed from new "
        "rows alone they would be wrong"
    )


class Listener:
    """Receives reports about a running query. This base class ignores them."""

    def progress(self) -> None:
        """Report that the query is still running. Engines call it any number of times."""

    def warning(self, text: str) -> None:
        """Report a problem that does not fail the query, but that its author should know."""

    def late(self, rows: int) -> None:
        """Report rows and changes of inputs that were left out because they came too late."""

    def stops(self, stop: Callable[[], None]) -> None:
        """Receive the function that stops the query. Any thread may call it, once nobody waits
        for the response any more."""


QUIET = Listener()


@runtime_checkable
class Prepared(Protocol):
    """An engine that has to start something before its first query."""

    def prepare(self) -> None:
        """Begin to start it, and return without waiting."""


class Engine(Protocol):
    """One query engine. An execution is pinned to its `name` and `version`."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def execute_raw_query(
        self, request: RawQueryRequest, listener: Listener = QUIET
    ) -> RawQueryResponse:
        """Run a query over the input files as the view `input`, and write the rows to the output
        path.

        The engine writes one Parquet file, even if there are no rows.
        """
        ...

    def execute_transform(
        self, request: TransformRequest, listener: Listener = QUIET
    ) -> TransformResponse:
        """Run one iteration of a derivative dataset over the new rows of its inputs.

        The engine writes the slice to `new_data_path`, even if there are no rows, because the
        file gives the schema. It writes the checkpoint for the next iteration to
        `new_checkpoint_path`, if there is anything to keep.
        """
        ...


def engine_for(transform: Transform, engines: Sequence[Engine]) -> Engine:
    """Return the engine that a transform requests, ignoring case. Raise `UnsupportedEngine`."""
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
    """Return the steps of a transform; the last one is the result and needs no alias.

    Raises:
        InvalidQuery: there is no step, or a step before the last has no alias.
    """
    steps = transform.queries or ()
    if not steps and transform.query:
        steps = (SqlQueryStep(query=transform.query),)
    if not steps:
        raise InvalidQuery(NO_QUERY)
    for step in steps[:-1]:
        if step.alias is None:
            raise InvalidQuery("only the last query may have no alias")
    return steps


def check_begins_as_query(text: str) -> None:
    """Raise `InvalidQuery` unless the first word is SELECT or WITH."""
    before = _BEFORE_FIRST_WORD.match(text)
    first = text[before.end() if before else 0 :][:6].upper()
    if not first.startswith(("SELECT", "WITH")):
        raise InvalidQuery(ONLY_QUERIES)
