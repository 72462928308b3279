"""Opens untrusted Parquet slices with Arrow, as all readers do, after checking the footer's size.

Arrow survives any footer while it reads rows. But for some footers it crashes the process when
a column chunk is requested (`metadata.row_group(…).column(…)`). No code does that; facts about
chunks are read by `parquet_footer`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from .errors import Damaged
from .parquet_footer import TAIL_BYTES, RowGroup, Unclear, footer_size, row_groups_in

MAX_FOOTER_BYTES = 16 << 20
"""Limit in bytes of the footer of a slice that is opened."""
MAX_FOOTER_ITEMS = 1_000_000
"""Limit of entries in a list of a footer."""
FOLLOWED_FOOTER_BYTES = 1 << 20
"""Limit in bytes of a footer that is parsed in Python, which takes some tenths of a second."""
_ARROW_SCHEMA = b"ARROW:schema"
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError)
"""Errors of Arrow, or of the file that it reads, for bytes that are not Parquet."""


class UnreadableSlice(Damaged):
    """A data file cannot be read to its end as Parquet."""

    @classmethod
    def of(cls, error: BaseException) -> UnreadableSlice:
        return cls(f"the data slice cannot be read: {str(error)[:200] or type(error).__name__}")


def open_slice(source: pa.Buffer | BinaryIO, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a slice in memory or in a seekable file, with these columns as dictionaries.

    Raises:
        UnreadableSlice: it is not a Parquet file, or its footer is larger than the limit.
    """
    try:
        _check_footer(source)
        if not isinstance(source, pa.Buffer):
            source.seek(0)
        file = pq.ParquetFile(
            source,
            read_dictionary=list(dictionaries),
            thrift_string_size_limit=MAX_FOOTER_BYTES,
            thrift_container_size_limit=MAX_FOOTER_ITEMS,
        )
        _ = file.schema_arrow  # fails if a name is not valid text
        return file
    except UNREADABLE as error:
        raise UnreadableSlice.of(error) from None


def schema_of(file: pq.ParquetFile) -> pa.Schema:
    """Return the columns of a slice. Types that Parquet has no name for (Date64, times in seconds)
    are those of the Arrow schema in the footer, where the stored numbers fit: the Rust
    implementation writes them as bare numbers."""
    schema: pa.Schema = file.schema_arrow
    told = (file.metadata.metadata or {}).get(_ARROW_SCHEMA)
    if told is None or not any(_holds_numbers(field.type) for field in schema):
        return schema
    try:
        origin = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told)))
    except (ValueError, *UNREADABLE):
        return schema
    if origin.names != schema.names:
        return schema
    fields = [_believed(field, origin.field(at)) for at, field in enumerate(schema)]
    return pa.schema(fields, metadata=schema.metadata)


def as_stated(batch: pa.RecordBatch, stated: pa.Schema) -> pa.RecordBatch:
    """Return rows of a slice, all columns or some, with the types of `schema_of`."""
    if all(field.type == stated.field(field.name).type for field in batch.schema):
        return batch
    return batch.cast(pa.schema([stated.field(name) for name in batch.schema.names]))


def _believed(found: pa.Field, told: pa.Field) -> pa.Field:
    return found.with_type(_believed_type(found.type, told.type))


def _believed_type(found: pa.DataType, told: pa.DataType) -> pa.DataType:
    if pa.types.is_signed_integer(found) and pa.types.is_temporal(told):
        fits = not pa.types.is_interval(told) and found.bit_width == told.bit_width
        return told if fits else found
    if pa.types.is_list(found) and (pa.types.is_list(told) or pa.types.is_large_list(told)):
        return pa.list_(_believed(found.value_field, told.value_field))
    if pa.types.is_struct(found) and pa.types.is_struct(told) and found.names == told.names:
        pairs = zip(found.fields, told.fields, strict=True)
        return pa.struct([_believed(one, other) for one, other in pairs])
    return found


def _holds_numbers(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _holds_numbers(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_holds_numbers(field.type) for field in kind.fields)
    return bool(pa.types.is_signed_integer(kind))


def row_groups(source: pa.Buffer | BinaryIO) -> list[RowGroup]:
    """Return the row groups in the footer; empty if it is large or cannot be parsed. The position
    of a file is undefined afterwards."""
    try:
        tail, whole = _tail(source)
        size = footer_size(tail, whole)
        if size > FOLLOWED_FOOTER_BYTES:
            return []
        return row_groups_in(_part(source, whole - TAIL_BYTES - size, size))
    except Unclear:
        return []


def _check_footer(source: pa.Buffer | BinaryIO) -> None:
    try:
        size = footer_size(*_tail(source))
    except Unclear as unclear:
        raise UnreadableSlice(f"it is no Parquet file: {unclear.message}") from None
    if size > MAX_FOOTER_BYTES:
        raise UnreadableSlice(
            f"its footer has {size} bytes, at most {MAX_FOOTER_BYTES} are read", bytes=size
        )


def _tail(source: pa.Buffer | BinaryIO) -> tuple[bytes, int]:
    """Return the last bytes, and the size of the whole."""
    whole = source.size if isinstance(source, pa.Buffer) else source.seek(0, io.SEEK_END)
    return _part(source, max(0, whole - TAIL_BYTES), TAIL_BYTES), whole


def _part(source: Any, start: int, size: int) -> bytes:
    part: bytes
    if isinstance(source, pa.Buffer):
        part = source.slice(start, min(size, source.size - start)).to_pybytes()
    else:
        source.seek(start)
        part = source.read(size)
    return part
