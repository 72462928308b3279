"""The columns of a Parquet slice, each read by itself, so that a window of one stays in the cache.

What is plain is handed out page by page, as it is hashed; all else comes by a reader.

Text that is stored as places in a dictionary, in every page, is handed out as such: no value is
copied out of the dictionary only to be copied again as it is hashed.

Arrays are trusted to be valid, as the Parquet reader makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from .arrow_values import COUNT_BYTES, WIDE_BYTES, bytes_of, storage_type, stream, text_buffers
from .plain_pages import TEXT, Laid, plain_values, plain_width

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Reopen = Callable[[Sequence[str]], "pq.ParquetFile"]
"""Opens a file once more, to be read beside it, with these columns as dictionary arrays."""
DICTIONARY_BYTES = 2 << 20
"""Largest dictionary, as stored, that is worth it: each window brings it along."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file, at its place in the schema. `size` orders columns by work."""

    place: int
    name: str
    type: Any
    leaves: Sequence[int]
    size: int
    coded: bool
    """Whether a small dictionary holds all its values, and is what is read of it."""
    width: int | None
    """Bytes of a value, if pages may be plain: then they need no reader."""
    optional: bool
    """Whether values may be null."""


class Columns:
    """The columns of a file in their order, read by as many readers as there are threads: one
    reader is for one thread."""

    def __init__(self, file: pq.ParquetFile, reopen: Reopen, content: pa.Buffer | None) -> None:
        self.rows = int(file.metadata.num_rows)
        self.all = list(_columns(file))
        self._content = content
        self._metadata = file.metadata
        self._reopen = reopen
        self._dictionaries = [column.name for column in self.all if column.coded]
        self._groups = range(file.num_row_groups)
        self._spare = [] if self._dictionaries else [file]

    def values(
        self, column: Column, rows: int, *, shown: bool = False
    ) -> Iterator[pa.Array | Laid]:
        """All values of a column in their order: as many at a time as asked for, or fewer; or
        those of a page, where the content of the file is at hand. Those to be `shown` are arrays
        or numbers."""
        content, width = self._content, column.width
        if content is None or width is None or column.coded or (shown and width == TEXT):
            yield from (batch.column(0) for batch in self.batches(column, rows))
            return
        for group in self._groups:
            chunk, done = self._metadata.row_group(group).column(column.leaves[0]), 0
            read = _Rows(self.batches(column, rows, [group]))
            for laid in plain_values(content, chunk, width, optional=column.optional):
                yield from read.between(done, laid.first)
                yield laid
                done = laid.first + laid.rows
            yield from read.between(done, chunk.num_values)
            read.close()

    def batches(
        self, column: Column, rows: int, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same by a reader alone, of some row groups or all."""
        try:
            file = self._spare.pop()
        except IndexError:
            file = self._reopen(self._dictionaries)
        wanted = self._groups if groups is None else groups
        try:
            yield from file.reader.iter_batches(
                rows, row_groups=wanted, column_indices=column.leaves, use_threads=False
            )
        finally:
            self._spare.append(file)


class _Rows:
    """Rows of a row group by their places, which are asked for in their order. Nothing is read
    before it is."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._values: Any = ()
        self._end = 0

    def between(self, start: int, end: int) -> Iterator[pa.Array]:
        while start < end:
            while self._end <= start:
                batch = next(self._batches, None)
                if batch is None:  # too few: whoever counts them will tell
                    return
                self._values = batch.column(0)
                self._end += len(self._values)
            skipped = start - (self._end - len(self._values))
            part = self._values.slice(skipped, end - start)
            yield part
            start += len(part)

    def close(self) -> None:
        """Gives the reader back."""
        self._values = ()
        self._batches.close()  # type: ignore[attr-defined]


def _columns(file: pq.ParquetFile) -> Iterator[Column]:
    metadata, first = file.metadata, 0
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    for place, field in enumerate(file.schema_arrow):
        leaves = range(first, first + _leaf_count(field.type))
        first = leaves.stop
        chunks = [group.column(leaf) for group in groups for leaf in leaves]
        text = types.is_string(field.type) or types.is_binary(field.type)
        described = file.schema.column(leaves[0])
        yield Column(
            place=place,
            name=field.name,
            type=field.type,
            leaves=leaves,
            size=sum(chunk.total_uncompressed_size for chunk in chunks),
            coded=text and all(map(_only_dictionary, chunks)),
            width=plain_width(described, field.type),
            optional=described.max_definition_level > 0,
        )


def _leaf_count(kind: Any) -> int:
    kind = storage_type(kind)
    return sum(_leaf_count(kind.field(at).type) for at in range(kind.num_fields)) or 1


def _only_dictionary(chunk: Any) -> bool:
    """Whether a small dictionary holds all values. Format 1 tells; a file that lies is slow."""
    encodings = chunk.encodings
    if "PLAIN_DICTIONARY" not in encodings or "PLAIN" in encodings:
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
        words, places = array.dictionary, array.indices
        if self._words is None or not words.equals(self._words):
            self._words, self._framed = words, _framed(words, self._rows)
            self._even = _even(self._framed)
        if not len(places):
            return b""
        if places.null_count:
            return bytes_of(self._framed.take(places.fill_null(len(words))))
        if self._even is None:
            return bytes_of(self._framed.take(places))
        size = len(places) * self._even.type.byte_width
        return memoryview(self._even.take(places).buffers()[1])[:size]


def _framed(words: Any, rows: int) -> Any:
    """Each word as it is fed, and the zero that stands for null behind them."""
    content = bytes(stream(words, None)) + b"\0"
    offsets, _ = text_buffers(words)
    starts = offsets - offsets[0] + np.arange(len(offsets)) * COUNT_BYTES
    starts = np.append(starts, len(content))
    wide = int(np.diff(starts).max()) * rows > WIDE_BYTES
    kind, number = (pa.large_binary(), np.int64) if wide else (pa.binary(), np.int32)
    places = pa.py_buffer(starts.astype(number))
    return pa.Array.from_buffers(kind, len(words) + 1, [None, places, pa.py_buffer(content)])


def _even(framed: Any) -> Any | None:
    """The words alone, if they are of one length."""
    offsets, content = text_buffers(framed)
    widths = np.diff(offsets[:-1])
    if not len(widths) or (widths != widths[0]).any():
        return None
    return pa.Array.from_buffers(pa.binary(int(widths[0])), len(widths), [None, content])
