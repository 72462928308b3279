"""Statements of Flight SQL on the queries of the node: planned once, then as often as is asked.

A handle holds all that a statement is: its text, and the datasets it is made of, each as of the
block it had when it was planned. So nothing is kept for a client, and any call may be the last.
A handle gives no right: whoever sends it is asked for theirs as with any query.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from odf_node.protocol.errors import BadInput
from odf_node.protocol.typed import decode_json
from odf_node.storage.datasets.query.messages import Form

from ..auth.actors import Actor
from ..query.asked import Asked, QueryBody, checked
from ..query.inputs import DatasetPin
from ..query.query import Queries, Rows


class MalformedHandle(BadInput):
    """The handle of a statement that no node gave."""


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """What a handle holds."""

    query: str
    pins: list[DatasetPin]

    @property
    def handle(self) -> bytes:
        return msgspec.json.encode(self)


def read_handle(handle: bytes) -> Statement:
    """Raises `MalformedHandle`."""
    try:
        return decode_json(handle, Statement)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise MalformedHandle("this is no handle of a statement of this node") from None


@dataclass(frozen=True)
class Statements:
    """For the event loop."""

    queries: Queries
    max_rows: int

    async def plan(self, actor: Actor, caller: str, query: str) -> tuple[Statement, pa.Schema]:
        """The statement with the columns of its answer. Raises as `Queries.begin`."""
        rows = await self.queries.begin(actor, caller, self._asked(Statement(query, []), 0))
        try:
            raw = b"".join([piece async for piece in rows])
        finally:
            await rows.close()
        with pa.ipc.open_stream(raw) as empty:
            return Statement(query, rows.pins), empty.schema

    async def begin(self, actor: Actor, caller: str, statement: Statement) -> Rows:
        """Its rows as an Arrow stream: one more than there may be, so that none is left out
        unnoticed. Raises as `Queries.begin`."""
        asked = self._asked(statement, self.max_rows + 1)
        return await self.queries.begin(actor, caller, asked)

    def _asked(self, statement: Statement, limit: int) -> Asked:
        body = QueryBody(query=statement.query, datasets=statement.pins, limit=limit)
        return checked(body, form=Form.ARROW, max_rows=self.max_rows + 1)
