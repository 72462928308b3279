"""Streaming of the rows of a statement, from the process that computes them to the client.

Conversion of the rows of a query into record batches, each small enough for one message.

A batch is read after the client has taken the previous one, so that no rows are buffered.

Statements of Flight SQL on the queries of the node: planned once, and run any number of times.

A handle contains the whole statement: its text, and its input datasets, each with its head at the
time of planning. So the node stores nothing for a client, and a client may stop after any call.
A handle grants no rights: the rights of its sender are checked as for any query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.typed import decode_json
from odf_storage.datasets.query.messages import Form

from ..auth.actors import Actor
from ..query.background import QueryBody, QueryRequest, checked
from ..query.inputs import DatasetPin
from ..query.query import Queries, QueryRows
from .calls import Call


class PieceReader:
    """A file that can be read once. It requests its pieces one by one; b"" is the end."""

    closed = False

    def __init__(self, next_piece: Callable[[], bytes]) -> None:
        self._next_piece = next_piece
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Read `size` bytes, or fewer at the end. Raises the errors of requesting a piece."""
        taken: list[memoryview] = []
        while size > 0:
            if not self._rest:
                self._rest = memoryview(self._next_piece())
                if not self._rest:
                    break
            taken.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(taken[-1])
        return b"".join(taken)

    def close(self) -> None:
        self.closed = True


def bounded(
    batches: Iterator[pa.RecordBatch], *, max_bytes: int, max_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and split those above `max_bytes`. Raises `RowTooLong`, and `TooManyRows`
    at the first batch beyond `max_rows`."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if rows > max_rows:
            raise LimitExceeded(
                "TooManyRows",
                f"the answer has more than {max_rows} rows; ask for fewer by LIMIT",
                limit=max_rows,
                setting="ODF_NODE_QUERY_MAX_ROWS",
            )
        yield from cut(batch, max_bytes)


def cut(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into batches of at most `max_bytes` bytes. Raises `RowTooLong`."""
    if batch.nbytes <= max_bytes:
        yield batch
        return
    if batch.num_rows == 1:
        raise LimitExceeded(
            "RowTooLong",
            f"a row takes more than the {max_bytes} bytes of a message; ask for fewer columns",
            limit=max_bytes,
        )
    half = batch.num_rows // 2
    yield from cut(batch.slice(0, half), max_bytes)
    yield from cut(batch.slice(half), max_bytes)


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """The content of a handle. `values` is an Arrow stream of one row, the values of parameters;
    empty before they are bound, and None if the statement was not prepared."""

    query: str
    pins: list[DatasetPin]
    values: bytes | None = None

    @property
    def handle(self) -> bytes:
        return msgspec.json.encode(self)


def read_handle(handle: bytes) -> Statement:
    """Parse a handle. Raises `MalformedHandle`."""
    try:
        return decode_json(handle, Statement)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadInput("MalformedHandle", "this is no handle of a statement of this node") from None


class Plan(NamedTuple):
    """A statement, the columns of its rows, and its parameters if it has any."""

    statement: Statement
    columns: pa.Schema
    parameters: pa.Schema | None


@dataclass(frozen=True)
class Statements:
    """Plans and runs statements, in the event loop."""

    queries: Queries
    max_rows: int

    async def plan(self, actor: Actor, caller: str, statement: Statement) -> Plan:
        """Return the statement as of the heads of now. Raises the errors of `Queries.begin`."""
        rows = await self.queries.begin(actor, caller, self._asked(statement, 0))
        try:
            raw = b"".join([piece async for piece in rows])
        finally:
            await rows.close()
        with pa.ipc.open_stream(raw) as empty:
            columns = empty.schema
        parameters = pa.ipc.read_schema(pa.py_buffer(rows.parameters)) if rows.parameters else None
        return Plan(msgspec.structs.replace(statement, pins=rows.pins), columns, parameters)

    async def begin(self, actor: Actor, caller: str, statement: Statement) -> QueryRows:
        """Return the rows of a statement as an Arrow stream. It requests one row more than the
        limit, so that a result above the limit is noticed. Raises the errors of
        `Queries.begin`."""
        asked = self._asked(statement, self.max_rows + 1)
        return await self.queries.begin(actor, caller, asked)

    def _asked(self, statement: Statement, limit: int) -> QueryRequest:
        body = QueryBody(query=statement.query, datasets=statement.pins, limit=limit)
        asked = checked(body, form=Form.ARROW, max_rows=self.max_rows + 1)
        return replace(asked, values=statement.values)


@dataclass(frozen=True)
class Fetching:
    """Plans and runs statements, for the threads of calls. `batch_bytes` is the limit of a batch in
    bytes, `idle_s` how long a client may take no rows, in seconds."""

    statements: Statements
    batch_bytes: int
    idle_s: float

    def planned(self, call: Call, statement: Statement) -> Plan:
        """Plan a statement, with columns as the caller gets them. Raises the errors of
        `Statements.plan`, `Bridge.result`."""
        plan = call.result(partial(self.statements.plan, call.actor, call.share, statement))
        parameters = None if plan.parameters is None else call.types.parameters(plan.parameters)
        return Plan(plan.statement, call.types.schema(plan.columns), parameters)

    def rows(self, call: Call, statement: Statement) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run a statement; return its columns and an iterator of batches. The process of the query
        ends after the last batch, at the first error, and when the iterator is dropped.

        Raises the errors of `Statements.begin`, `Bridge.result`.
        """
        running = self._running(call, statement)
        return next(running), running

    @contextmanager
    def in_time(self, call: Call) -> Iterator[None]:
        """End the call if the `with` block, which reads from the client, takes longer than
        `idle_s`."""
        done = call.bridge.later(self.idle_s, call.end)
        try:
            yield
        finally:
            done()

    def counted(
        self, call: Call, make: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Return the batches of `make`, and occupy a slot of the caller's share until the end, or
        until the client has taken none for `idle_s`."""

        def batches() -> Iterator[Any]:
            with call.counted():
                yield None
                for batch in make():
                    taken = call.bridge.later(self.idle_s, call.end)
                    try:
                        yield batch
                    finally:
                        taken()

        running = batches()
        next(running)
        return running

    def _running(self, call: Call, statement: Statement) -> Iterator[Any]:
        """Yield the columns, then the batches. `rows` starts this generator, so that its `finally`
        always runs."""
        with call.counted():
            rows = call.result(partial(self.statements.begin, call.actor, call.share, statement))
            try:
                pieces = aiter(rows)
                source = PieceReader(lambda: call.result(lambda: anext(pieces, b"")))
                reader = pa.ipc.open_stream(pa.PythonFile(source, mode="r"))
                yield call.types.schema(reader.schema)
                batches = bounded(
                    map(call.types.batch, reader),
                    max_bytes=self.batch_bytes,
                    max_rows=self.statements.max_rows,
                )
                yield from self._watched(call, rows, batches)
            finally:
                call.bridge.start(rows.close)

    def _watched(
        self, call: Call, rows: QueryRows, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches. End the process if the client takes none for `idle_s`."""
        for batch in batches:
            began = time.monotonic()
            taken = call.bridge.later(self.idle_s, rows.close)
            try:
                yield batch
            finally:
                taken()
            if time.monotonic() - began > self.idle_s:
                raise LimitExceeded(
                    "ClientTooSlow",
                    f"no rows were taken for {self.idle_s:g} seconds; ask again",
                    limit=self.idle_s,
                    setting="ODF_NODE_CLIENT_IDLE_S",
                )
