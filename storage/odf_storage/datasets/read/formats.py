"""Encode rows batch by batch, without collecting them: CSV, NDJSON, JSON, Parquet, Arrow.

Datasets of single rows have many batches of one row. A few dozen of these are encoded as one: a
Parquet file has one row group for them, and still the first bytes come soon.

Values in text formats are written as on the whole node (`records.py`); `csv_cells.py` writes the
cells of CSV.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from odf_protocol.errors import BadInput

from . import csv_cells
from .records import values

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterator["pa.RecordBatch"]
_JSON = msgspec.json.Encoder(enc_hook=str)

JOINED_BATCHES = 64
JOINED_ROWS = 4096
JOINED_BYTES = 2 * 1024 * 1024
"""Largest number of batches that are encoded as one, and the rows and bytes of these from which no
further batch is awaited."""


class UnwritableColumn(BadInput):
    """A column has a type that the format cannot represent."""


class Format(StrEnum):
    """Output formats of rows; the values are the names that clients request."""

    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    PARQUET = "parquet"
    ARROW = "arrow"


MEDIA_TYPES = {
    Format.CSV: "text/csv; charset=utf-8; header=present",
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.ARROW: "application/vnd.apache.arrow.stream",
}


def encoded(schema: pa.Schema, batches: Batches, form: Format) -> Iterator[bytes]:
    """Yield the rows in that format. Raise `UnwritableColumn`."""
    return _WRITERS[form](schema, _joined(batches))


def _joined(batches: Batches) -> Batches:
    """Yield the same rows; join batches of few rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if len(waiting) == JOINED_BATCHES or rows >= JOINED_ROWS or size >= JOINED_BYTES:
            yield _one(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _csv(schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    yield csv_cells.header(schema.names)
    for batch in batches:
        yield csv_cells.lines(batch)


def _objects(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [values(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _ndjson(_schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    for batch in batches:
        yield b"".join(_JSON.encode(row) + b"\n" for row in _objects(batch))


def _json(_schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    yield b"["
    between = b"\n"
    for batch in batches:
        yield between + b",\n".join(_JSON.encode(row) for row in _objects(batch))
        between = b",\n"
    yield b"\n]\n"


class _Written(io.RawIOBase):
    """Buffer between a writer of files and the consumer of its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._chunks: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, chunk: Any) -> int:
        self._chunks.append(bytes(chunk))
        self._size += len(self._chunks[-1])
        return len(self._chunks[-1])

    def tell(self) -> int:
        return self._size

    def taken(self) -> bytes:
        """Return and remove everything that was written since the last call."""
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)


def _parquet(schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    from odf_protocol.float_columns import bounded_leaves

    def make(out: Any) -> Any:
        return pq.ParquetWriter(
            out, schema, compression="snappy", write_statistics=bounded_leaves(schema)
        )

    return _binary(make, batches)


def _arrow(schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    import pyarrow as pa

    return _binary(lambda out: pa.ipc.new_stream(out, schema), batches)


def _binary(make: Callable[[Any], Any], batches: Batches) -> Iterator[bytes]:
    import pyarrow as pa

    out = _Written()
    try:
        with make(out) as writer:
            for batch in batches:
                writer.write_batch(batch)
                if chunk := out.taken():
                    yield chunk
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as broken:
        raise UnwritableColumn(f"the format cannot hold this: {str(broken)[:200]}") from None
    yield out.taken()


_WRITERS: dict[Format, Callable[[Any, Batches], Iterator[bytes]]] = {
    Format.CSV: _csv,
    Format.NDJSON: _ndjson,
    Format.JSON: _json,
    Format.PARQUET: _parquet,
    Format.ARROW: _arrow,
}
