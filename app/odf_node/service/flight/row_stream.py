"""Conversion of the rows of a query into record batches, each small enough for one message.

A batch is read after the client has taken the previous one, so that no rows are buffered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from odf_protocol.errors import LimitExceeded

from ..query.asked import TooManyRows


class RowTooLong(LimitExceeded):
    """One row has more bytes than the limit of a message."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a row takes more than the {limit} bytes of a message; ask for fewer columns",
            limit=limit,
        )


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
            raise TooManyRows(
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
        raise RowTooLong(max_bytes)
    half = batch.num_rows // 2
    yield from cut(batch.slice(0, half), max_bytes)
    yield from cut(batch.slice(half), max_bytes)
