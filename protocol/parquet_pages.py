"""Plain numbers of a Parquet column chunk, page by page, as they lie there.

A page of numbers that are not in a dictionary is, once decompressed, just what the logical hash is
fed: no reader has to copy them once more, and a page stays in the processor's cache. A page that
is one number all over, as operations and system times are, needs no reader either. Only pages that
leave no doubt are handed out: of data format 1, without nulls, with exactly the bytes that their
values take. All others are for a reader; so is a chunk whose pages do not add up.

Source: Parquet format, "Data Pages", "Encodings" and `parquet.thrift`; Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from .errors import Damaged

Plain = tuple[int, pa.Array]
"""The place of the first value in its chunk, and the values of a page."""

_WIDTHS = {"INT32": 32, "INT64": 64, "FLOAT": 32, "DOUBLE": 64}
_CODECS = ("SNAPPY", "UNCOMPRESSED")
_HEADER_BYTES = 1024
_MAX_RUN_BYTES = 10
"""What one run of places in a dictionary takes at most, their width included."""
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _OLD_DICTIONARY, _RLE, _DICTIONARY = 0, 2, 3, 8


class _Unclear(Damaged):
    """What only a reader of all of Parquet can judge."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of a chunk: where its bytes are, and what its header says."""

    kind: int
    start: int
    size: int
    """As stored."""
    content_size: int
    """Decompressed."""
    values: int
    encoding: int
    levels: int
    """Encoding of the levels that tell which values are null."""


def has_plain_pages(schema: Any, arrow_type: Any) -> bool:
    """Whether numbers of a top-level column are the same bytes in Parquet and Arrow."""
    floating = types.is_floating(arrow_type)
    known = types.is_integer(arrow_type) or types.is_timestamp(arrow_type) or floating
    width = _WIDTHS.get(schema.physical_type)
    return bool(
        known
        and width == arrow_type.bit_width
        and floating == (schema.physical_type in ("FLOAT", "DOUBLE"))
        and schema.max_repetition_level == 0
        and schema.max_definition_level <= 1
    )


def plain_arrays(
    content: pa.Buffer, chunk: Any, arrow_type: Any, *, optional: bool
) -> Iterator[Plain]:
    """The pages of a chunk that are plain, in their order; none if the chunk is not clear."""
    if chunk.compression not in _CODECS or _counts_nulls(chunk):
        return
    try:
        pages = list(_pages(content, chunk))
    except (_Unclear, IndexError):
        return
    data = [page for page in pages if page.kind == _DATA_PAGE]
    if sum(page.values for page in data) != chunk.num_values:
        return
    opened = _Opened(content, chunk.compression != "UNCOMPRESSED", arrow_type, optional)
    opened.take_words(pages[0])
    first = 0
    for page in data:
        values = opened.values(page)
        if values is not None:
            yield first, pa.Array.from_buffers(arrow_type, page.values, [None, values])
        first += page.values


class _Opened:
    """Takes the values out of the pages of a chunk."""

    def __init__(self, content: pa.Buffer, packed: bool, arrow_type: Any, optional: bool) -> None:
        self._content = content
        self._codec = pa.Codec("snappy") if packed else None
        self._width = arrow_type.bit_width // 8
        self._optional = optional
        self._words: Any = None
        self._repeated: tuple[int, int, Any] = (0, 0, None)
        """A word, how often, and the bytes of so many."""

    def take_words(self, page: _Page) -> None:
        """Note the numbers of the dictionary, if this is one."""
        plain = page.encoding in (_PLAIN, _OLD_DICTIONARY)
        if page.kind == _DICTIONARY_PAGE and plain:
            raw = self._unpacked(page)
            if raw is not None and raw.size == page.values * self._width:
                self._words = np.frombuffer(raw, f"u{self._width}")

    def values(self, page: _Page) -> pa.Buffer | None:
        """The bytes of a page's values; None: ask a reader."""
        none_null = _no_nulls(page.values) if self._optional else b""
        size = page.content_size - len(none_null)
        plain = page.encoding == _PLAIN and size == page.values * self._width
        coded = page.encoding in (_OLD_DICTIONARY, _DICTIONARY) and 0 < size <= _MAX_RUN_BYTES
        if page.levels != _RLE or not (plain or (coded and self._words is not None)):
            return None
        raw = self._unpacked(page)
        if raw is None or raw.slice(0, len(none_null)).to_pybytes() != none_null:
            return None
        values = raw.slice(len(none_null))
        return values if plain else self._one_word(values.to_pybytes(), page.values)

    def _one_word(self, places: bytes, count: int) -> pa.Buffer | None:
        """One run of the same place: the width of places in bits, the count, the place."""
        bits, head = places[0], 1 + len(_run(count))
        place = int.from_bytes(places[head:], "little")
        one_run = places[1:head] == _run(count) and len(places) == head + (bits + 7) // 8
        if not one_run or place >= len(self._words):
            return None
        if self._repeated[:2] != (place, count):
            numbers = np.full(count, self._words[place])
            self._repeated = place, count, pa.py_buffer(numbers)
        return self._repeated[2]

    def _unpacked(self, page: _Page) -> pa.Buffer | None:
        """A page, if it tells the same size as its header, so that every byte was written."""
        stored = self._content.slice(page.start, page.size)
        if self._codec is None:
            return stored if page.size == page.content_size else None
        try:
            size, _ = _varint(stored.slice(0, min(10, page.size)).to_pybytes(), 0)
            return self._codec.decompress(stored, size) if size == page.content_size else None
        except (_Unclear, IndexError, pa.ArrowException, OSError):
            return None


def _counts_nulls(chunk: Any) -> bool:
    """A hint: reading its pages here would be for nothing."""
    known = chunk.statistics
    return known is not None and known.has_null_count and known.null_count > 0


def _run(count: int) -> bytes:
    """What a run of one value begins with."""
    return _to_varint(count << 1)


def _no_nulls(values: int) -> bytes:
    """The levels of values none of which is null: length, and a run of ones."""
    run = _run(values) + b"\1"
    return len(run).to_bytes(4, "little") + run


def _pages(content: pa.Buffer, chunk: Any) -> Iterator[_Page]:
    """All pages of a chunk, one behind the other, to its last byte."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        at = min(at, chunk.dictionary_page_offset)
    end, first = at + chunk.total_compressed_size, True
    if at < 0 or end > content.size:
        raise _Unclear("the chunk lies outside of the file")
    while at < end:
        head, length = _struct(content.slice(at, min(_HEADER_BYTES, end - at)).to_pybytes(), 0)
        at += length
        kind, content_size, size = (head.get(field, -1) for field in (1, 2, 3))
        if size < 0 or content_size < 0 or size > end - at:
            raise _Unclear("a page lies outside of its chunk")
        known = kind == _DATA_PAGE or (kind == _DICTIONARY_PAGE and first)
        data = head.get(5 if kind == _DATA_PAGE else 7)
        if not known or not isinstance(data, dict):
            raise _Unclear("a page of another kind")
        values, encoding, levels = (data.get(field, -1) for field in (1, 2, 3))
        if values < 0:
            raise _Unclear("a page without a number of values")
        yield _Page(kind, at, size, content_size, values, encoding, levels)
        at, first = at + size, False


# --- Thrift ---------------------------------------------------------------------------------


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _Unclear("a number without an end")


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _struct(raw: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Integers and structs of a struct by field; all else is passed over."""
    found: dict[int, Any] = {}
    field = 0
    while head := raw[at]:
        at += 1
        step, kind = head >> 4, head & 0x0F
        if not step:
            raise _Unclear("a field with a number of its own, as no page header has")
        field += step
        if kind in (1, 2):  # a boolean is its kind
            pass
        elif kind in (4, 5, 6):  # integers of 16, 32 and 64 bits
            zigzag, at = _varint(raw, at)
            found[field] = (zigzag >> 1) ^ -(zigzag & 1)
        elif kind == 8:  # bytes
            length, at = _varint(raw, at)
            at += length
        elif kind == 12 and depth < 2:
            found[field], at = _struct(raw, at, depth + 1)
        else:
            raise _Unclear("a field of a kind that no page header has")
    return found, at + 1
