"""The columns of a Parquet slice, read one by one, so that a window of values stays in the cache.

Text that is dictionary-encoded in every page is returned in that form, so that no value is copied
out of the dictionary only to be copied again when it is hashed.

Arrays are trusted to be valid, because the Parquet reader creates them.
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
"""Limit in bytes of a stored dictionary worth keeping, because each window contains a copy."""


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf column of a file: what Parquet stores as one column."""

    leaf: int
    name: str
    """Name of the schema's column that this leaf is, or is a part of."""
    type: Any
    """Type of that column."""
    is_first: bool
    """Whether it is the first leaf of that column."""
    size: int
    """Size in bytes of its chunks, as far as known. It orders columns by the work they cause."""
    coded: bool
    """Whether a small dictionary has all values, so that the column is read dictionary-encoded."""


class Columns:
    """The leaf columns of a file, in order, with as many readers as are used at the same time."""

    def __init__(self, file: pq.ParquetFile, source: pa.Buffer | BinaryIO) -> None:
        self.rows = int(file.metadata.num_rows)
        self.all = list(_columns(file, row_groups(source)))
        self._source = source
        self._dictionaries = sorted({column.name for column in self.all if column.coded})
        self._groups = range(file.num_row_groups)
        self._spare = [] if self._dictionaries else [file]

    def batches(self, column: Column, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield all values of a leaf in order, at most `rows` at a time. A struct column contains
        only the member that leads to the leaf."""
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
        groups = []  # Arrow will report what is wrong with them
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
    """Return whether a small dictionary has all values, judging by the encodings of format 1. If
    the metadata is wrong, reading is only slower."""
    if PLAIN_DICTIONARY not in chunk.encodings or PLAIN in chunk.encodings:
        return False
    start = chunk.dictionary_page_offset
    return start is not None and chunk.data_page_offset - start <= DICTIONARY_BYTES


class Coded:
    """Lays out values that are indices into a dictionary; the dictionary is laid out only once."""

    def __init__(self, rows: int) -> None:
        """`rows` is the largest number of rows in an array."""
        self._rows = rows
        self._words: Any = None
        self._framed: Any = None
        self._even: Any = None
        """The laid-out words if all have equal length, for which there is a faster way."""

    def stream(self, array: Any) -> Any:
        """Return the hash input of a dictionary array; a null is an index after all words."""
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
    """Return the hash input of each word, followed by the zero byte that represents null."""
    content = bytes(stream(words, None)) + b"\0"
    offsets, _ = text_buffers(words)
    starts = offsets - offsets[0] + np.arange(len(offsets)) * COUNT_BYTES
    starts = np.append(starts, len(content))
    wide = int(np.diff(starts).max()) * rows > WIDE_BYTES
    kind, number = (pa.large_binary(), np.int64) if wide else (pa.binary(), np.int32)
    indices = pa.py_buffer(starts.astype(number))
    return pa.Array.from_buffers(kind, len(words) + 1, [None, indices, pa.py_buffer(content)])


def _even(framed: Any) -> Any | None:
    """Return the words without the null, if all have equal length; otherwise None."""
    offsets, content = text_buffers(framed)
    widths = np.diff(offsets[:-1])
    if not len(widths) or (widths != widths[0]).any():
        return None
    return pa.Array.from_buffers(pa.binary(int(widths[0])), len(widths), [None, content])
