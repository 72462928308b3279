"""Statements of Flight SQL on the queries of the node: planned once, and run any number of times.

A handle contains the whole statement: its text, and its input datasets, each with its head at the
time of planning. So the node stores nothing for a client, and a client may stop after any call.
A handle grants no rights: the rights of its sender are checked as for any query.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from odf_protocol.errors import BadInput
from odf_protocol.typed import decode_json
from odf_storage.datasets.query.messages import Form

from ..auth.actors import Actor
from ..query.asked import Asked, QueryBody, checked
from ..query.inputs import DatasetPin
from ..query.query import Queries, Rows


class MalformedHandle(BadInput):
    """The handle of a statement cannot be parsed."""


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """The content of a handle."""

    query: str
    pins: list[DatasetPin]

    @property
    def handle(self) -> bytes:
        return msgspec.json.encode(self)


def read_handle(handle: bytes) -> Statement:
    """Parse a handle. Raises `MalformedHandle`."""
    try:
        return decode_json(handle, Statement)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MalformedHandle("this is no handle of a statement of this node") from None


@dataclass(frozen=True)
class Statements:
    """Plans and runs statements, in the event loop."""

    queries: Queries
    max_rows: int

    async def plan(self, actor: Actor, caller: str, query: str) -> tuple[Statement, pa.Schema]:
        """Return the statement with the columns of its result. Raises the errors of
        `Queries.begin`."""
        rows = await self.queries.begin(actor, caller, self._asked(Statement(query, []), 0))
        try:
            raw = b"".join([piece async for piece in rows])
        finally:
            await rows.close()
        with pa.ipc.open_stream(raw) as empty:
            return Statement(query, rows.pins), empty.schema

    async def begin(self, actor: Actor, caller: str, statement: Statement) -> Rows:
        """Return the rows of a statement as an Arrow stream. It requests one row more than the
        limit, so that a result above the limit is noticed. Raises the errors of
        `Queries.begin`."""
        asked = self._asked(statement, self.max_rows + 1)
        return await self.queries.begin(actor, caller, asked)

    def _asked(self, statement: Statement, limit: int) -> Asked:
        body = QueryBody(query=statement.query, datasets=statement.pins, limit=limit)
        return checked(body, form=Form.ARROW, max_rows=self.max_rows + 1)
