"""Headers of the pages of a Parquet column chunk: the amount that a decoder will read from each.

Source: Parquet format, "Data Pages" and `parquet.thrift`; Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odf_protocol.parquet_footer import Chunk, Unclear

DATA, INDEX, DICTIONARY, DATA_2 = 0, 1, 2, 3
"""Kinds of pages."""
DELTA_BYTE_ARRAY = 7
"""An encoding in which texts share prefixes with the previous ones."""
INDICES = (2, 8)
"""Encodings whose values are positions in the dictionary of the chunk."""
_HEADER_BYTES = 1 << 14
_SHORT, _INT, _LONG, _BYTES, _STRUCT = 4, 5, 6, 8, 12
_SAID_IN = {DATA: (5, 1, 2), DICTIONARY: (7, 1, 2), DATA_2: (8, 1, 4)}
"""Fields of each kind of header: the kind's own header, and in it number of values, and
encoding."""


@dataclass(frozen=True, slots=True)
class Header:
    """Numbers that the header of a page of any kind claims."""

    kind: int
    content_size: int
    values: int
    encoding: int


def page_headers(content: memoryview, chunk: Chunk) -> Iterator[Header]:
    """Yield the headers of all pages of a chunk, except index pages; a reader reads no more than
    they claim.

    Raises:
        Unclear: they do not follow each other, or cannot be read.
    """
    at, end = chunk.start, chunk.end
    if end > len(content):
        raise Unclear("the chunk lies outside of the file")
    while at < end:
        try:
            head, length = _struct(bytes(content[at : min(at + _HEADER_BYTES, end)]), 0)
        except IndexError:
            raise Unclear("a page header without an end") from None
        kind, content_size, size = head.get(1, -1), head.get(2, -1), head.get(3, -1)
        at += length + size
        if size < 0 or content_size < 0 or at > end:
            raise Unclear("a page lies outside of its chunk")
        if kind == INDEX:
            continue
        field, counts, encodes = _SAID_IN.get(kind, (0, 0, 0))
        said = head.get(field)
        if not isinstance(said, dict) or said.get(counts, -1) < 0:
            raise Unclear("a page without a number of values")
        yield Header(kind, content_size, said[counts], said.get(encodes, -1))


# --- Thrift ---------------------------------------------------------------------------------


def _struct(raw: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the integers and structs of a struct by field number; other values are skipped."""
    found: dict[int, Any] = {}
    field = 0
    while head := raw[at]:
        at += 1
        step, kind = head >> 4, head & 0x0F
        if not step:
            raise Unclear("a field with a number of its own, as no page header has")
        field += step
        if kind in (_INT, _BYTES, _LONG, _SHORT):
            number = raw[at]
            at += 1
            if number > 0x7F:
                number, at = _varint(raw, at - 1)
            if kind == _BYTES:
                at += number
            else:
                found[field] = (number >> 1) ^ -(number & 1)
        elif kind == _STRUCT and depth < 2:
            found[field], at = _struct(raw, at, depth + 1)
        elif kind not in (1, 2):  # a boolean has no bytes after its kind
            raise Unclear("a field of a kind that no page header has")
    return found, at + 1


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
            raise Unclear("a number without an end")
