"""Rows of a dataset as Arrow: a node reads them for us, or we read the chain ourselves.

Both run the same projection (`odf_storage/datasets/read`). We trust a node's response, but not a
chain: every block and slice is hashed, and no row is returned whose slice does not fit its hash.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from odf_protocol.errors import RemoteFailed
from odf_storage.datasets.read.formats import Format

from ..client.http import open_http
from ..client.limits import LIMITS, TooMuch
from ..client.node_api import NodeApi, NothingThere, NotOffered
from ..client.repositories import HttpRepository
from ..client.sync import opened
from ..service.read.read import ReadRequest
from .place import Place

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = "odf-block"
"""Header with the block as of which rows were read."""


class NoRows(RemoteFailed):
    """The response of the server is not a stream of rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in offset order, read on demand, and the block as of which they are read."""

    block: str
    reader: pa.RecordBatchReader


class RowSource(Protocol):
    """Reads the rows of a dataset."""

    @contextmanager
    def rows(self, request: ReadRequest) -> Iterator[Rows]:
        """Yield the requested rows. Raises the same errors as `odf-node read`."""


class FromNode:
    """Lets a node read: one request, and the response has only the requested columns and rows.

    A node of another make does not read for others; then the chain is read here."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @contextmanager
    def rows(self, request: ReadRequest) -> Iterator[Rows]:
        import pyarrow as pa

        place = self._place
        with ExitStack() as stack:
            http = stack.enter_context(open_http())
            api = NodeApi(place.location.base, place.token, http=http)
            try:
                headers, body = stack.enter_context(api.opened("read", **_query(request)))
            except (NotOffered, NothingThere) as missing:
                # Any other node, and a server of files, has the dataset by the transfer protocol.
                there = HttpRepository(place.location.base, place.token, http=http)
                if missing.facts.get("reported") is not None or there.find_head() is None:
                    raise
                yield stack.enter_context(FromChain(place).rows(request))
                return
            block = headers.get(BLOCK)
            if block is None:
                raise NoRows(
                    f"{place.location} is no node that reads datasets; "
                    "open it with verify=True to read its files",
                    url=str(place.location),
                )
            reader = pa.ipc.open_stream(pa.PythonFile(_Messages(body), "r"))
            yield Rows(block, _at_most(reader, request.limit))


class _Messages(io.RawIOBase):
    """A stream of Arrow messages, none of them longer than a client takes: their lengths are
    announced by the node, and memory for them is taken before they come."""

    def __init__(self, body: BinaryIO, most: int = LIMITS.rows_message_bytes) -> None:
        self._body, self._most = body, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self._most:
            raise TooMuch("a message of rows", self._most)
        return self._body.read(size)


def _at_most(reader: pa.RecordBatchReader, limit: int | None) -> pa.RecordBatchReader:
    """Return no more rows than were asked for, whatever the node sends."""
    import pyarrow as pa

    if limit is None:
        return reader

    def batches() -> Iterator[pa.RecordBatch]:
        left = limit
        while left > 0 and (batch := next(iter(reader), None)) is not None:
            yield batch.slice(0, left)
            left -= batch.num_rows

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


class FromChain:
    """Reads the rows itself: fetches and hashes the whole chain and every needed slice."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @contextmanager
    def rows(self, request: ReadRequest) -> Iterator[Rows]:
        import pyarrow as pa

        from odf_storage.datasets.read.read import reading
        from odf_storage.datasets.read.view import view_of

        asked = request.asked()  # reports a bad request before anything is fetched
        with opened(self._place.location, self._place.token, whole=True) as repository:
            view = view_of(repository, request.block())
            with reading(view, asked) as (schema, batches):
                yield Rows(str(view.head), pa.RecordBatchReader.from_batches(schema, batches))


def _query(request: ReadRequest) -> dict[str, Any]:
    given = replace(request, form=Format.ARROW.value)
    return {
        "asAt": given.as_at,
        "asOf": given.as_of,
        "projection": given.projection,
        "columns": given.columns,
        "filter": given.filters or None,
        "skip": given.skip or None,
        "limit": given.limit,
        "format": given.form,
    }
