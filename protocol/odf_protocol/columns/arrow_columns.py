"""The columns of a Parquet slice, read one by one, so that a window of values stays in the cache.

Text that is dictionary-encoded in every page is returned in that form, so that no value is copied
out of the dictionary only to be copied again when it is hashed.

Arrays are trusted to be valid, because the Parquet reader creates them.

The logical hash of a Parquet slice whose columns are hashed as streams, by any hasher.

Each leaf is read, laid out and hashed separately: `streams` are the hash inputs of the leaves, and
`finish` computes the logical hash from their digests. A window of one leaf fits into the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import types

from ..multihash import Multihash
from .arrow_digest import (
    CACHE_WINDOW_ROWS,
    FILE_WINDOW_ROWS,
    UnsupportedColumn,
    beginnings,
    finished,
    laid_out,
    leaves,
    windows,
)
from .arrow_values import COUNT_BYTES, WIDE_BYTES, bytes_of, storage_type, stream, text_buffers
from .slice_file import (
    PLAIN,
    PLAIN_DICTIONARY,
    UNREADABLE,
    UnreadableSlice,
    open_slice,
    row_groups,
    schema_of,
)
from .stored_values import Misfit, first_misfit

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from .slice_file import Chunk, RowGroup


FEW_ROWS = 4096
"""A file with at most as many rows is read without looking at its chunks: that takes longer than
reading its texts without dictionaries, and hashing its columns in any order."""
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
        groups = row_groups(source) if self.rows > FEW_ROWS else []
        self.all = list(_columns(file, groups))
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


ColumnCheck = Callable[[pa.Array], None]
"""Gets the values of a column, one window at a time."""
ColumnChecks = Mapping[str, ColumnCheck]
"""Checks by column name."""
NO_CHECKS: ColumnChecks = {}


class SliceDigest:
    """The digest of a slice. `checks` get the values of their columns in order while they are
    hashed; of a struct only the part that belongs to its first leaf.

    `source` is what the file was opened on. Several threads may read the streams of a buffer, but
    only one the streams of a file. An error in one stream ends all, and `finish` raises it.

    Raises:
        UnsupportedColumn: a column type without a digest.
    """

    def __init__(
        self,
        file: pq.ParquetFile,
        source: pa.Buffer | BinaryIO,
        *,
        checks: ColumnChecks = NO_CHECKS,
        judges_values: bool = False,
    ) -> None:
        self.indeterminate = False
        """A struct and its member both had nulls in one window, at different rows, so readers may
        compute different hashes. Check this before treating a mismatch as damage."""
        self._schema = schema_of(file)
        self._checks, self._judges_values = checks, judges_values
        self._misfits: dict[int, Misfit] = {}
        self._failure: UnreadableSlice | UnsupportedColumn | None = None
        self._columns = Columns(file, source)
        begun = zip(beginnings(self._schema), self._columns.all, strict=True)
        longest_first = sorted(begun, key=lambda each: each[1].size, reverse=True)
        self._order = [column.leaf for _, column in longest_first]
        self.streams: Sequence[Iterator[Any]] = [
            self._guarded(start, column) for start, column in longest_first
        ]

    @property
    def misfit(self) -> Misfit | None:
        """The first value, by column and row, that a dataset must not store, if values are judged.
        Complete when the streams are read."""
        return self._misfits[min(self._misfits)] if self._misfits else None

    def finish(self, digests: Sequence[bytes]) -> Multihash:
        """Return the logical hash for the digests of all streams, in the order of the streams.

        Raises:
            UnreadableSlice: the file is truncated or is not valid Parquet.
            UnsupportedColumn: values of a column of type null.
        """
        if self._failure is not None:
            raise self._failure
        by_leaf = dict(zip(self._order, digests, strict=True))
        return finished(self._schema, (by_leaf[leaf] for leaf in sorted(by_leaf)))

    def _guarded(self, start: bytes, column: Column) -> Iterator[Any]:
        try:
            yield start
            yield from self._contents(column)
        except (UnreadableSlice, UnsupportedColumn) as failure:
            self._failure = self._failure or failure
        except UNREADABLE as error:
            self._failure = self._failure or UnreadableSlice.of(error)
            self._failure.__context__ = error

    def _contents(self, column: Column) -> Iterator[Any]:
        nested = types.is_struct(storage_type(column.type))
        rows = FILE_WINDOW_ROWS if nested else CACHE_WINDOW_ROWS
        check = self._checks.get(column.name) if column.is_first else None
        coded, count = Coded(rows), 0
        batches = self._columns.batches(column, rows)
        for batch in windows(batches, rows) if nested else batches:
            if self._failure is not None:
                return
            values = batch.column(0)
            if check is not None:
                check(values)
            if self._judges_values and column.leaf not in self._misfits:
                self._judge(column, values, count)
            if column.coded:
                yield coded.stream(values)
            elif len(values):
                [(leaf, valid, unclear)] = leaves(values, column.name)
                if unclear:  # never set to False, because other threads may set it too
                    self.indeterminate = True
                yield from laid_out(leaf, valid)
            count += len(values)
        if count != self._columns.rows:
            raise UnreadableSlice(
                f"column {column.name!r} has {count} values for {self._columns.rows} rows"
            )

    def _judge(self, column: Column, values: pa.Array, before: int) -> None:
        stated = self._schema.field(column.name).type
        if types.is_integer(values.type) and types.is_temporal(stated):
            values = values.view(stated)
        if (bad := first_misfit(column.name, values)) is not None:
            self._misfits[column.leaf] = replace(bad, row=before + bad.row)
