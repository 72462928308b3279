"""The columns of a Parquet slice, each read by itself, so that a window of one stays in the cache.

Text that is stored as places in a dictionary, in every page, is handed out as such: no value is
copied out of the dictionary only to be copied again as it is hashed.

Arrays are trusted to be valid, as the Parquet reader makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import types

from .arrow_values import COUNT_BYTES, WIDE_BYTES, bytes_of, storage_type, stream, text_buffers
from .parquet_footer import PLAIN, PLAIN_DICTIONARY
from .slice_file import open_slice, row_groups

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from .parquet_footer import Chunk, RowGroup

DICTIONARY_BYTES = 2 << 20
"""Largest dictionary, as stored, that is worth it: each window brings it along."""


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf of a file: what Parquet keeps as one column."""

    leaf: int
    name: str
    """Of the column of the schema that it is, or is a part of."""
    type: Any
    """Of that column."""
    is_first: bool
    """Whether it is the first leaf of that column."""
    size: int
    """Bytes of its chunks, as far as they are known: columns are ordered by work."""
    coded: bool
    """Whether a small dictionary holds all its values, and is what is read of it."""


class Columns:
    """The leaves of a file in their order, read by as many readers as leaves are read at a time."""

    def __init__(self, file: pq.ParquetFile, source: pa.Buffer | BinaryIO) -> None:
        self.rows = int(file.metadata.num_rows)
        self.all = list(_columns(file, row_groups(source)))
        self._source = source
        self._dictionaries = sorted({column.name for column in self.all if column.coded})
        self._groups = range(file.num_row_groups)
        self._spare = [] if self._dictionaries else [file]

    def batches(self, column: Column, rows: int) -> Iterator[pa.RecordBatch]:
        """All values of a leaf in their order: as many at a time as asked for, or fewer. Of structs
        there is the one member that leads to it."""
        try:
            file = self._spare.pop()
        except IndexError:
            file = open_slice(self._source, self._dictionaries)
        try:
            yield from file.reader.iter_batches(
                rows, row_groups=self._groups, column_indices=[column.leaf], use_threads=False
            )
        finally:
            self._spare.append(file)


def _columns(file: pq.ParquetFile, groups: Sequence[RowGroup]) -> Iterator[Column]:
    leaf = 0
    if any(len(group.chunks) != len(file.schema) for group in groups):
        groups = []  # Arrow will say what is wrong with them
    for field in file.schema_arrow:
        text = types.is_string(field.type) or types.is_binary(field.type)
        for at in range(_leaf_count(field.type)):
            chunks = [group.chunks[leaf] for group in groups]
            yield Column(
                leaf=leaf,
                name=field.name,
                type=field.type,
                is_first=at == 0,
                size=sum(chunk.total_uncompressed_size for chunk in chunks),
                coded=text and bool(chunks) and all(map(_only_dictionary, chunks)),
            )
            leaf += 1


def _leaf_count(kind: Any) -> int:
    kind = storage_type(kind)
    return sum(_leaf_count(kind.field(at).type) for at in range(kind.num_fields)) or 1


def _only_dictionary(chunk: Chunk) -> bool:
    """Whether a small dictionary holds all values. Format 1 tells; a file that lies is slow."""
    if PLAIN_DICTIONARY not in chunk.encodings or PLAIN in chunk.encodings:
        return False
    start = chunk.dictionary_page_offset
    return start is not None and chunk.data_page_offset - start <= DICTIONARY_BYTES


class Coded:
    """Lays out values that are places in a dictionary; the words of it are laid out once."""

    def __init__(self, rows: int) -> None:
        """Arrays have so many rows at most."""
        self._rows = rows
        self._words: Any = None
        self._framed: Any = None
        self._even: Any = None
        """The same if all words are of one length, which is taken faster."""

    def stream(self, array: Any) -> Any:
        """Bytes that a dictionary array feeds to its state; a null is a place past all words."""
        words, indices = array.dictionary, array.indices
        if self._words is None or not words.equals(self._words):
            self._words, self._framed = words, _framed(words, self._rows)
            self._even = _even(self._framed)
        if not len(indices):
            return b""
        if indices.null_count:
            return bytes_of(self._framed.take(indices.fill_null(len(words))))
        if self._even is None:
            return bytes_of(self._framed.take(indices))
        size = len(indices) * self._even.type.byte_width
        return memoryview(self._even.take(indices).buffers()[1])[:size]


def _framed(words: Any, rows: int) -> Any:
    """Each word as it is fed, and the zero that stands for null behind them."""
    content = bytes(stream(words, None)) + b"\0"
    offsets, _ = text_buffers(words)
    starts = offsets - offsets[0] + np.arange(len(offsets)) * COUNT_BYTES
    starts = np.append(starts, len(content))
    wide = int(np.diff(starts).max()) * rows > WIDE_BYTES
    kind, number = (pa.large_binary(), np.int64) if wide else (pa.binary(), np.int32)
    indices = pa.py_buffer(starts.astype(number))
    return pa.Array.from_buffers(kind, len(words) + 1, [None, indices, pa.py_buffer(content)])


def _even(framed: Any) -> Any | None:
    """The words alone, if they are of one length."""
    offsets, content = text_buffers(framed)
    widths = np.diff(offsets[:-1])
    if not len(widths) or (widths != widths[0]).any():
        return None
    return pa.Array.from_buffers(pa.binary(int(widths[0])), len(widths), [None, content])
