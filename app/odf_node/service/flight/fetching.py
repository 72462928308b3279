"""Streaming of the rows of a statement, from the process that computes them to the client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from odf_protocol.errors import LimitExceeded

from ..query.query import Rows
from .calls import Call
from .row_stream import PieceReader, bounded
from .statements import Statement, Statements


class ClientTooSlow(LimitExceeded):
    """The client took no rows for too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"no rows were taken for {seconds:g} seconds; ask again",
            limit=seconds,
            setting="ODF_NODE_CLIENT_IDLE_S",
        )


@dataclass(frozen=True)
class Fetching:
    """Plans and runs statements, for the threads of calls. `batch_bytes` is the limit of a batch in
    bytes, `idle_s` how long a client may take no rows, in seconds."""

    statements: Statements
    batch_bytes: int
    idle_s: float

    def planned(self, call: Call, query: str) -> tuple[Statement, pa.Schema]:
        """Plan a query; return the statement and its columns. Raises the errors of
        `Statements.plan`, `Bridge.result`."""
        statement, schema = call.result(
            partial(self.statements.plan, call.actor, call.share, query)
        )
        return statement, call.types.schema(schema)

    def rows(self, call: Call, statement: Statement) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run a statement; return its columns and an iterator of batches. The process of the query
        ends after the last batch, at the first error, and when the iterator is dropped.

        Raises the errors of `Statements.begin`, `Bridge.result`.
        """
        running = self._running(call, statement)
        return next(running), running

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
        self, call: Call, rows: Rows, batches: Iterator[pa.RecordBatch]
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
                raise ClientTooSlow(self.idle_s)
