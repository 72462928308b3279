"""Values of a Parquet column chunk as they are hashed, taken out of its pages.

A page of numbers that are not in a dictionary is, once decompressed, just what the logical hash is
fed: no reader has to copy them once more, and a page stays in the processor's cache. A page that
is one number all over, as operations and system times are, needs no reader either. Texts lie there
with lengths of 32 bits instead of 64.

Only pages that leave no doubt are handed out: of data format 1, without nulls, with exactly the
bytes that their values take. All others are for a reader; so is a chunk whose pages do not add up.

Source: Parquet format, "Encodings".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import cramjam
import numpy as np
import pyarrow as pa
from pyarrow import types

from .parquet_pages import (
    DICTIONARY,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    RLE_DICTIONARY,
    Page,
    Unclear,
    pages_of,
    to_varint,
)
from .plain_texts import framed_texts

TEXT = 0
"""The width of values that have none."""
MAX_TEXT_BYTES = 16 << 20
"""Largest page of text that is laid out at once; writers make them of one MiB."""
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_CODECS = ("SNAPPY", "UNCOMPRESSED")
_MAX_RUN_BYTES = 10
"""What one run of places in a dictionary takes at most, their width included."""


class Laid(NamedTuple):
    """Values as they are hashed: the place of the first in its chunk, how many, their bytes.

    Their bytes are those until the next values of the column are asked for.
    """

    first: int
    rows: int
    content: Any

    def numbers(self, arrow_type: Any) -> pa.Array:
        """The same as an array, if they are numbers."""
        return pa.Array.from_buffers(arrow_type, self.rows, [None, pa.py_buffer(self.content)])


def plain_width(schema: Any, arrow_type: Any) -> int | None:
    """Bytes of a value of a top-level column whose pages may be plain; None: they may not."""
    if schema.max_repetition_level or schema.max_definition_level > 1:
        return None
    physical = schema.physical_type
    if physical == "BYTE_ARRAY":
        return TEXT if types.is_string(arrow_type) or types.is_binary(arrow_type) else None
    floating = types.is_floating(arrow_type)
    known = floating or types.is_integer(arrow_type) or types.is_timestamp(arrow_type)
    if not known or floating != (physical in ("FLOAT", "DOUBLE")):
        return None
    width = _WIDTHS.get(physical)
    return width if width is not None and width * 8 == arrow_type.bit_width else None


def plain_values(content: pa.Buffer, chunk: Any, width: int, *, optional: bool) -> Iterator[Laid]:
    """The pages of a chunk that are plain, in their order; none if the chunk is not clear."""
    if chunk.compression not in _CODECS or _counts_nulls(chunk):
        return
    raw = memoryview(content).cast("B")
    try:
        pages = pages_of(raw, chunk)
    except Unclear:
        return
    opened = _Opened(raw, chunk.compression != "UNCOMPRESSED", width, optional)
    first = 0
    for page in pages:
        if page.kind == DICTIONARY:
            opened.take_words(page)
            continue
        values = opened.values(page)
        if values is not None:
            yield Laid(first, page.values, values)
        first += page.values


class _Opened:
    """Takes the values out of the pages of a chunk."""

    def __init__(self, content: memoryview, packed: bool, width: int, optional: bool) -> None:
        self._content = content
        self._packed = packed
        self._width = width
        self._optional = optional
        self._room = bytearray()
        """Where pages are unpacked, one after the other: it stays in the processor's cache, and
        fresh memory would be cleared first."""
        self._words: Any = None
        self._repeated: tuple[int, int, Any] = (0, 0, None)
        """A word, how often, and the bytes of so many."""
        self._in_doubt = False
        """Texts of a page were not clear, so those of the next will not be."""

    def take_words(self, page: Page) -> None:
        """Note the numbers of the dictionary."""
        if self._width == TEXT or page.encoding not in (PLAIN, PLAIN_DICTIONARY):
            return
        raw = self._unpacked(page)
        if raw is not None and len(raw) == page.values * self._width:
            self._words = np.frombuffer(raw, f"u{self._width}").copy()

    def values(self, page: Page) -> Any | None:
        """The bytes of a page's values; None: ask a reader."""
        levels = _no_nulls(page.values) if self._optional else b""
        if page.levels != RLE or not self._may_be_clear(page, page.content_size - len(levels)):
            return None
        raw = self._unpacked(page)
        if raw is None or raw[: len(levels)] != levels:
            return None
        values = raw[len(levels) :]
        if page.encoding != PLAIN:
            return self._one_word(bytes(values), page.values)
        if self._width != TEXT:
            return values
        framed = framed_texts(values, page.values)
        self._in_doubt = framed is None
        return framed

    def _may_be_clear(self, page: Page, size: int) -> bool:
        if page.encoding == PLAIN:
            if self._width == TEXT:
                return not self._in_doubt and size <= MAX_TEXT_BYTES
            return size == page.values * self._width
        in_dictionary = page.encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY)
        return in_dictionary and self._words is not None and 0 < size <= _MAX_RUN_BYTES

    def _one_word(self, places: bytes, count: int) -> Any | None:
        """One run of the same place: the width of places in bits, the count, the place."""
        run = _run(count)
        bits, head = places[0], 1 + len(run)
        place = int.from_bytes(places[head:], "little")
        one_run = places[1:head] == run and len(places) == head + (bits + 7) // 8
        if not one_run or place >= len(self._words):
            return None
        if self._repeated[:2] != (place, count):
            self._repeated = place, count, np.full(count, self._words[place])
        return self._repeated[2]

    def _unpacked(self, page: Page) -> memoryview | None:
        """A page, if it tells the same size as its header, so that every byte was written."""
        stored = self._content[page.start : page.start + page.size]
        if not self._packed:
            return stored if page.size == page.content_size else None
        if page.content_size * 3 > page.size * 64:  # Snappy makes 64 bytes of three at most
            return None
        try:
            if cramjam.snappy.decompress_raw_len(stored) != page.content_size:
                return None
            if len(self._room) < page.content_size:
                self._room = bytearray(page.content_size)
            size = cramjam.snappy.decompress_raw_into(stored, self._room)
        except cramjam.DecompressionError:
            return None
        return memoryview(self._room)[:size] if size == page.content_size else None


def _counts_nulls(chunk: Any) -> bool:
    """A hint: reading its pages here would be for nothing."""
    known = chunk.statistics
    return known is not None and known.has_null_count and known.null_count > 0


@lru_cache(64)
def _run(count: int) -> bytes:
    """What a run of one value begins with."""
    return to_varint(count << 1)


@lru_cache(64)
def _no_nulls(values: int) -> bytes:
    """The levels of values none of which is null: length, and a run of ones."""
    run = _run(values) + b"\1"
    return len(run).to_bytes(4, "little") + run
