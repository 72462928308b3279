"""Encode rows batch by batch, without collecting them: CSV, NDJSON, JSON, (Geo)Parquet, Arrow.

Datasets of single rows have many batches of one row. A few dozen of these are encoded as one: a
Parquet file has one row group for them, and still the first bytes come soon.

Values in text formats are written as on the whole node (`records.py`).

Write columns of rows as cells of CSV and as members of JSON objects, a column at a time.

Arrow writes texts, whole numbers, booleans and instants. Values of other types are formatted with
the format that the whole node uses (`records.py`), in CSV each distinct one once; lists and structs
are JSON inside a cell. A null is an empty cell, an empty text is `""`; special floats are `NaN`,
`inf` and `-inf`, which the CSV reader accepts.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS

from .records import UNIT_NANOS, values

if TYPE_CHECKING:
    import pyarrow as pa


END = "\r\n"
NEEDS_QUOTES = '[",\r\n]|^#'
"""A line that begins with a bare # is a comment for some readers, which leave its row out."""
NEEDS_ESCAPES = r'["\\\x00-\x1f]'
FIRST_S, END_S = -62_135_596_800, 253_402_300_800
"""Seconds since 1970 at which the years 1 and 10000 begin."""
_JSON = msgspec.json.Encoder(enc_hook=str)


def lines(batch: pa.RecordBatch) -> bytes:
    """Return the rows of a batch as lines, each with its line end."""
    if not batch.num_columns:
        return b"\r\n" * int(batch.num_rows)
    cells = [_cells(column) for column in batch.columns]
    return _bytes_of(_joined_cells(_joined_cells(*cells, by=","), "", by=END))


def _joined_cells(*parts: Any, by: str) -> pa.LargeStringArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    given = [pa.scalar(p, pa.large_string()) if isinstance(p, str) else p for p in (*parts, by)]
    return pc.binary_join_element_wise(*given)


def header(names: list[str]) -> bytes:
    """Return the header line with the names of the columns."""
    import pyarrow as pa

    cells: list[str] = _quoted(pa.array(names, pa.large_string())).to_pylist()
    return (",".join(cells) + END).encode()


def _bytes_of(rows: pa.LargeStringArray) -> bytes:
    """Return the text of all rows, which the data buffer has in one piece."""
    import struct

    if len(rows) == 0:
        return b""
    _, offsets, data = rows.buffers()
    start = struct.unpack_from("=q", offsets, 8 * rows.offset)[0]
    end = struct.unpack_from("=q", offsets, 8 * (rows.offset + len(rows)))[0]
    return bytes(memoryview(data)[start:end])


def _cells(column: pa.Array) -> pa.LargeStringArray:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    text = pa.large_string()
    if types.is_dictionary(kind):
        return _cells(column.cast(kind.value_type))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pc.fill_null(_quoted(column.cast(text)), "")
    if types.is_integer(kind) or types.is_boolean(kind):
        return pc.fill_null(column.cast(text), "")
    if types.is_nested(kind):
        told = [None if v is None else _JSON.encode(v).decode() for v in values(column)]
        return pc.fill_null(_quoted(pa.array(told, text)), "")
    if types.is_timestamp(kind) and kind.tz in (None, "UTC") and _has_years(column):
        return pc.fill_null(_instants(column), "")
    if types.is_floating(kind):  # most differ from each other
        told = [
            repr(v).replace("e-0", "e-") if v.__class__ is float else _cell(v)
            for v in _said(column)
        ]
        return pa.array(told, text)
    known = column.dictionary_encode()
    written = pa.array([_cell(value) for value in _said(known.dictionary)], text)
    return pc.fill_null(written.take(known.indices), "")


def _quoted(column: pa.LargeStringArray) -> pa.LargeStringArray:
    """Put the texts that need it in quotes."""
    import pyarrow.compute as pc

    needs = pc.or_(pc.match_substring_regex(column, NEEDS_QUOTES), pc.equal(column, ""))
    if not pc.any(needs).as_py():
        return column
    doubled = pc.replace_substring(column, '"', '""')
    return pc.if_else(needs, _joined_cells('"', doubled, '"', by=""), column)


def _has_years(column: pa.TimestampArray) -> bool:
    """Return whether all instants are in the years 1 to 9999; Arrow writes others differently."""
    import pyarrow.compute as pc

    ends = pc.min_max(column.cast("int64"))
    first, last = ends["min"].as_py(), ends["max"].as_py()
    second = NANOS // UNIT_NANOS[column.type.unit]
    return first is None or (first >= FIRST_S * second and last < END_S * second)


def _instants(column: pa.TimestampArray) -> pa.LargeStringArray:
    """Format as RFC 3339; the fraction has as many groups of three digits as it needs."""
    own = UNIT_NANOS[column.type.unit]
    return _in_units(column, [unit for unit, nanos in UNIT_NANOS.items() if nanos >= own])


def _in_units(column: pa.TimestampArray, units: list[str]) -> pa.LargeStringArray:
    """Format each instant in the first of the units that has it whole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    unit, *finer = units
    ticks, size = column.cast(pa.int64()), UNIT_NANOS[unit] // UNIT_NANOS[column.type.unit]
    whole = pc.divide(ticks, size)
    told = _with_t(whole, unit, column.type.tz)
    if not finer:
        return told
    fits = pc.equal(pc.multiply(whole, size), ticks)
    if pc.all(fits).as_py() is not False:
        return told
    return pc.if_else(fits, told, _in_units(column, finer))


LENGTHS = {"s": 19, "ms": 23, "us": 26, "ns": 29}
"""Characters of Arrow's text of an instant of the years 1 to 9999, by unit."""


def _with_t(ticks: pa.Int64Array, unit: str, zone: str | None) -> pa.LargeStringArray:
    """Return the texts of instants: those of Arrow with a T between day and time, and a Z in UTC.

    Arrow writes instants of a zone thirty times slower than those of none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = ticks.cast(pa.timestamp(unit)).cast(pa.large_string()).cast(pa.large_binary())
    text = pc.binary_replace_slice(text, 10, 11, "T")
    if zone is not None:
        text = pc.binary_replace_slice(text, LENGTHS[unit], LENGTHS[unit], "Z")
    return text.cast(pa.large_string())


def _said(distinct: pa.Array) -> list[Any]:
    """Return values as `records.values` does, but with `NaN`, `inf` and `-inf`, which are
    null there because JSON cannot express them."""
    from pyarrow import types

    shown = values(distinct)
    if not types.is_floating(distinct.type) or shown.count(None) == distinct.null_count:
        return shown
    pairs = zip(shown, distinct.to_pylist(), strict=True)
    return ["NaN" if v != v else v if s is None else s for s, v in pairs]


def _cell(value: Any) -> str:
    """Return the text of a number, time or the like, which needs no quotes."""
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    return "" if value is None else str(value)


Batches = Iterator["pa.RecordBatch"]


JOINED_BATCHES = 64
JOINED_ROWS = 4096
JOINED_BYTES = 2 * 1024 * 1024
"""Largest number of batches that are encoded as one, and the rows and bytes of these from which no
further batch is awaited."""


class Format(StrEnum):
    """Output formats of rows; the values are the names that clients request."""

    CSV = "csv"
    NDJSON = "ndjson"
    JSON = "json"
    PARQUET = "parquet"
    GEOPARQUET = "geoparquet"
    ARROW = "arrow"


IN_BYTES = (Format.PARQUET, Format.GEOPARQUET, Format.ARROW)
"""Formats that are no text."""
MEDIA_TYPES = {
    Format.CSV: "text/csv; charset=utf-8; header=present",
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.PARQUET: "application/vnd.apache.parquet",
    Format.GEOPARQUET: "application/vnd.apache.parquet",
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
    yield header(schema.names)
    for batch in batches:
        yield lines(batch)


def _objects(batch: pa.RecordBatch, end: str) -> bytes:
    """Return each row as a JSON object, with the text after it."""
    names = batch.schema.names
    if not names or len(set(names)) < len(names):
        columns = [values(column) for column in batch.columns]
        rows = zip(*columns, strict=True) if names else [()] * batch.num_rows
        told = (_JSON.encode(dict(zip(names, row, strict=True))) for row in rows)
        return b"".join(text + end.encode() for text in told)
    parts: list[Any] = []
    for name, column in zip(names, batch.columns, strict=True):
        parts += [("," if parts else "{") + _JSON.encode(name).decode() + ":", _json_cells(column)]
    return _bytes_of(_joined_cells(*parts, "}" + end, by=""))


def _json_cells(column: pa.Array) -> pa.LargeStringArray:
    """Return the JSON of each value; it equals the encoding of `records.values`."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind, text = column.type, pa.large_string()
    if types.is_dictionary(kind):
        return _json_cells(column.cast(kind.value_type))
    if types.is_integer(kind) or types.is_boolean(kind):
        return pc.fill_null(column.cast(text), "null")
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        wide = column.cast(text)
        if not pc.any(pc.match_substring_regex(wide, NEEDS_ESCAPES)).as_py():
            return pc.fill_null(_joined_cells('"', wide, '"', by=""), "null")
    if types.is_timestamp(kind) and kind.tz in (None, "UTC") and _has_years(column):
        return pc.fill_null(_joined_cells('"', _instants(column), '"', by=""), "null")
    told = values(column)
    if types.is_floating(kind):  # a number has no comma
        return pa.array(_JSON.encode(told)[1:-1].split(b",")[: len(told)], pa.large_binary()).cast(
            text
        )
    return pa.array([_JSON.encode(value).decode() for value in told], text)


def _ndjson(_schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    for batch in batches:
        yield _objects(batch, "\n")


def _json(_schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    yield b"["
    between = b"\n"
    for batch in batches:
        yield between + _objects(batch, ",\n")[:-2]
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

    from odf_protocol.columns.stored_values import bounded_leaves

    def make(out: Any) -> Any:
        return pq.ParquetWriter(
            out, schema, compression="snappy", write_statistics=bounded_leaves(schema)
        )

    return _binary(make, batches)


def _geoparquet(schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    from .geometries import places, with_places

    made = with_places(schema)
    return _parquet(made, places(made, batches))


def _arrow(schema: pa.Schema, batches: Batches) -> Iterator[bytes]:
    import pyarrow as pa

    return _binary(lambda out: pa.ipc.new_stream(out, schema), batches)


def _binary(make: Callable[[Any], Any], batches: Batches) -> Iterator[bytes]:
    import pyarrow as pa

    out = _Written()
    try:
        made = make(out)
    except (pa.ArrowException, OSError) as broken:  # `OSError`: a decimal of negative scale
        raise _unwritable(broken) from None
    try:
        with made as writer:
            for batch in batches:
                writer.write_batch(batch)
                if chunk := out.taken():
                    yield chunk
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as broken:
        raise _unwritable(broken) from None
    yield out.taken()


def _unwritable(broken: Exception) -> BadInput:
    return BadInput("UnwritableColumn", f"the format cannot hold this: {str(broken)[:200]}")


_WRITERS: dict[Format, Callable[[Any, Batches], Iterator[bytes]]] = {
    Format.CSV: _csv,
    Format.NDJSON: _ndjson,
    Format.JSON: _json,
    Format.PARQUET: _parquet,
    Format.GEOPARQUET: _geoparquet,
    Format.ARROW: _arrow,
}
