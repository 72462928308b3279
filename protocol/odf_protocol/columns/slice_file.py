"""Opens untrusted Parquet slices with Arrow, as all readers do, after checking the footer's size.

Arrow survives any footer while it reads rows. But for some footers it crashes the process when
a column chunk is requested (`metadata.row_group(…).column(…)`). No code does that; facts about
chunks are read by `parquet_footer`.

Reads from a Parquet footer where the column chunks are and how they are encoded.

Source: Parquet format, `parquet.thrift`; Thrift compact protocol. No library reads the footer
before it is known to be sound, because some crash the process over an impossible number.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import Damaged

MAGIC = b"PAR1"
PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY = 0, 2, 8
"""Numbers of value encodings in the format."""
TAIL_BYTES = 8
"""Size of the end of a file: the footer length and the magic."""
MAX_DEPTH = 16
_TRUE, _FALSE, _BYTE, _DOUBLE, _BYTES, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


class Unclear(Damaged):
    """Bytes of a Parquet file cannot be parsed."""


@dataclass(frozen=True, slots=True)
class StatedBounds:
    """What a footer says of the values of a column chunk, as bytes of the format. Arrow is not
    asked for it: damaged bytes can crash the process."""

    nulls: int | None
    least: bytes | None
    greatest: bytes | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a row group. Sizes and offsets are in bytes of the file."""

    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    encodings: Sequence[int]
    """Encodings of its pages, as numbers of the format."""
    bounds: StatedBounds | None = None
    """None if they were not asked for, or are not stated."""

    @property
    def start(self) -> int:
        """Offset of its first page."""
        return min(self.data_page_offset, self.dictionary_page_offset or self.data_page_offset)

    @property
    def end(self) -> int:
        return self.start + self.total_compressed_size


@dataclass(frozen=True, slots=True)
class RowGroup:
    num_rows: int
    chunks: list[Chunk]


def row_groups_of(content: memoryview) -> list[RowGroup]:
    """Return the row groups in the footer of a file. Raises `Unclear`."""
    start, end = footer_span(content)
    return row_groups_in(bytes(content[start : end - TAIL_BYTES]))


def footer_span(content: memoryview) -> tuple[int, int]:
    """Return where the footer of a file begins, and where it ends with the file. Raises
    `Unclear`."""
    size = footer_size(bytes(content[-TAIL_BYTES:]), len(content))
    return len(content) - TAIL_BYTES - size, len(content)


def footer_size(tail: bytes, file_size: int) -> int:
    """Return the size of the footer of a file that ends with `tail`. Raises `Unclear`."""
    if file_size < len(MAGIC) + TAIL_BYTES or tail[-len(MAGIC) :] != MAGIC:
        raise Unclear("no footer that can be read")
    size = int.from_bytes(tail[-TAIL_BYTES : -len(MAGIC)], "little")
    if size > file_size - len(MAGIC) - TAIL_BYTES:
        raise Unclear("a footer larger than its file")
    return size


def row_groups_in(footer: bytes, *, bounds: bool = False) -> list[RowGroup]:
    """Return the row groups in a footer, also with what it says of values. Raises `Unclear`."""
    try:
        said, _ = _struct(footer, 0, _FOOTER_WITH_BOUNDS if bounds else _FOOTER)
    except IndexError:
        raise Unclear("a footer without an end") from None
    return [_group(each) for each in said.get(4, [])]


def _group(said: Mapping[int, Any]) -> RowGroup:
    return RowGroup(_whole(said, 3), [_chunk(each) for each in said.get(1, [])])


def _chunk(said: Mapping[int, Any]) -> Chunk:
    meta = said.get(3)
    if meta is None:
        raise Unclear("a column without a place in the file")
    dictionary = meta.get(11) or None
    if dictionary is not None and dictionary < 0:
        raise Unclear("a dictionary before the file")
    return Chunk(
        num_values=_whole(meta, 5),
        total_uncompressed_size=_whole(meta, 6),
        total_compressed_size=_whole(meta, 7),
        data_page_offset=_whole(meta, 9),
        dictionary_page_offset=dictionary,
        encodings=tuple(meta.get(2, ())),
        bounds=_bounds(meta[12]) if 12 in meta else None,
    )


def _bounds(said: Mapping[int, Any]) -> StatedBounds:
    return StatedBounds(said.get(3), said.get(6), said.get(5))


def _whole(said: Mapping[int, Any], field: int) -> int:
    number: int = said.get(field, -1)
    if number < 0:
        raise Unclear("a footer that lacks a number")
    return number


_Fields = Mapping[int, Any]
_META: _Fields = {2: [None], 5: None, 6: None, 7: None, 9: None, 11: None}
_FOOTER: _Fields = {4: [{1: [{3: _META}], 3: None}]}
_BOUNDS: _Fields = {3: None, 5: bytes, 6: bytes}
_FOOTER_WITH_BOUNDS: _Fields = {4: [{1: [{3: {**_META, 12: _BOUNDS}}], 3: None}]}
"""The fields that are read, by number: integers, bytes, structs, and lists."""


# What follows reads at a position of the raw footer and returns the next position. Positions are
# passed rather than kept, because footers of small slices are most of the work of reading them.


def _struct(raw: bytes, at: int, wanted: _Fields, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Read a struct: the fields that are wanted."""
    found: dict[int, Any] = {}
    field = 0
    while head := raw[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _integer(raw, at)
        kind = head & 0x0F
        shape = wanted.get(field, ...)
        if shape is None and kind in _INTEGERS:
            found[field], at = _integer(raw, at)
        elif shape is bytes and kind == _BYTES:
            size, start = _varint(raw, at)
            at = _within(raw, start + size)
            found[field] = raw[start:at]
        elif isinstance(shape, dict) and kind == _STRUCT:
            found[field], at = _struct(raw, at, shape, depth + 1)
        elif isinstance(shape, list) and kind == _LIST:
            found[field], at = _items(raw, at, shape[0], depth + 1)
        else:
            at = _passed(raw, at, kind, depth)
    return found, at + 1


def _items(raw: bytes, at: int, shape: _Fields | None, depth: int) -> tuple[list[Any], int]:
    """Read a list of structs, or of integers if there is no shape."""
    count, kind, at = _list(raw, at)
    if kind != _STRUCT if shape is not None else kind not in _INTEGERS:
        raise Unclear("a list of something else")
    items: list[Any] = []
    for _ in range(count):
        item, at = _integer(raw, at) if shape is None else _struct(raw, at, shape, depth)
        items.append(item)
    return items, at


def _list(raw: bytes, at: int) -> tuple[int, int, int]:
    """Read the beginning of a list: how many values of which kind."""
    head = raw[at]
    count, at = head >> 4, at + 1
    if count == 15:
        count, at = _varint(raw, at)
    if count > len(raw) - at:
        raise Unclear("a list longer than the footer")
    return count, head & 0x0F, at


def _passed(raw: bytes, at: int, kind: int, depth: int) -> int:
    """Pass over a value that is not needed. A boolean field has no bytes of its own."""
    if kind in _INTEGERS:
        return _varint(raw, at)[1]
    if kind == _BYTES:
        size, at = _varint(raw, at)
        return _within(raw, at + size)
    if kind in _SIZES:
        return _within(raw, at + _SIZES[kind])
    if depth > MAX_DEPTH:
        raise Unclear("a footer nested too deep")
    if kind == _STRUCT:
        while head := raw[at]:
            at = at + 1 if head >> 4 else _varint(raw, at + 1)[1]
            at = _passed(raw, at, head & 0x0F, depth + 1)
        return at + 1
    if kind not in (_LIST, _SET):
        raise Unclear("a field of a kind that no footer has")
    count, kind, at = _list(raw, at)
    if kind in (_TRUE, _FALSE):
        return _within(raw, at + count)
    for _ in range(count):
        at = _passed(raw, at, kind, depth + 1)
    return at


_SIZES: Mapping[int, int] = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}


def _within(raw: bytes, at: int) -> int:
    if at > len(raw):
        raise IndexError
    return at


def _integer(raw: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(raw, at)
    return (number >> 1) ^ -(number & 1), at


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    byte = raw[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise Unclear("a number without an end")
        at += 1
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, at + 1


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


def row_groups(source: pa.Buffer | BinaryIO, *, bounds: bool = False) -> list[RowGroup]:
    """Return the row groups in the footer; empty if it is large or cannot be parsed. The position
    of a file is undefined afterwards."""
    try:
        tail, whole = _tail(source)
        size = footer_size(tail, whole)
        if size > FOLLOWED_FOOTER_BYTES:
            return []
        return row_groups_in(_part(source, whole - TAIL_BYTES - size, size), bounds=bounds)
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
