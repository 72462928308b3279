"""Reads from a Parquet footer where the column chunks are and how they are encoded.

Source: Parquet format, `parquet.thrift`; Thrift compact protocol. No library reads the footer
before it is known to be sound, because some crash the process over an impossible number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import Damaged

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
class Chunk:
    """A column of a row group. Sizes and offsets are in bytes of the file."""

    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    encodings: Sequence[int]
    """Encodings of its pages, as numbers of the format."""

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


def row_groups_in(footer: bytes) -> list[RowGroup]:
    """Return the row groups in a footer. Raises `Unclear`."""
    reader = _Reader(footer)
    try:
        said = reader.struct(_FOOTER)
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
    )


def _whole(said: Mapping[int, Any], field: int) -> int:
    number: int = said.get(field, -1)
    if number < 0:
        raise Unclear("a footer that lacks a number")
    return number


_Fields = Mapping[int, Any]
_META: _Fields = {2: [None], 5: None, 6: None, 7: None, 9: None, 11: None}
_FOOTER: _Fields = {4: [{1: [{3: _META}], 3: None}]}
"""The fields that are read, by number: integers, structs, and lists of either."""


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def struct(self, wanted: _Fields, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for field, kind in self._fields():
            shape = wanted.get(field, ...)
            if shape is None and kind in _INTEGERS:
                found[field] = self._integer()
            elif isinstance(shape, Mapping) and kind == _STRUCT:
                found[field] = self.struct(shape, depth + 1)
            elif isinstance(shape, list) and kind == _LIST:
                found[field] = list(self._items(shape[0], depth + 1))
            else:
                self._pass(kind, depth)
        return found

    def _fields(self) -> Iterator[tuple[int, int]]:
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            yield field, head & 0x0F

    def _items(self, shape: _Fields | None, depth: int) -> Iterator[Any]:
        count, kind = self._list()
        if kind != _STRUCT if shape is not None else kind not in _INTEGERS:
            raise Unclear("a list of something else")
        for _ in range(count):
            yield self._integer() if shape is None else self.struct(shape, depth)

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        if count > len(self._raw) - self._at:
            raise Unclear("a list longer than the footer")
        return count, head & 0x0F

    def _pass(self, kind: int, depth: int, *, in_list: bool = False) -> None:
        """Skip a value that is not needed."""
        if depth > MAX_DEPTH:
            raise Unclear("a footer nested too deep")
        if kind == _STRUCT:
            for _, inner in self._fields():
                self._pass(inner, depth + 1)
        elif kind in (_LIST, _SET):
            count, inner = self._list()
            for _ in range(count):
                self._pass(inner, depth + 1, in_list=True)
        else:
            step = _STEPS.get(kind)
            if step is None:
                raise Unclear("a field of a kind that no footer has")
            step(self, in_list)

    def _skip(self, count: int) -> None:
        if count > len(self._raw) - self._at:
            raise IndexError
        self._at += count

    def _byte(self) -> int:
        self._at += 1
        return self._raw[self._at - 1]

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise Unclear("a number without an end")


_STEPS: Mapping[int, Callable[[_Reader, bool], None]] = {
    _TRUE: lambda reader, in_list: reader._skip(int(in_list)),
    _FALSE: lambda reader, in_list: reader._skip(int(in_list)),
    _BYTE: lambda reader, _: reader._skip(1),
    **{kind: lambda reader, _: reader._skip(0 * reader._varint()) for kind in _INTEGERS},
    _DOUBLE: lambda reader, _: reader._skip(8),
    _BYTES: lambda reader, _: reader._skip(reader._varint()),
}
"""Functions that skip a value without inner values; a boolean field has no bytes of its own."""
