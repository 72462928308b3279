"""Scan all rows of a view, slice by slice: in the columns of one schema, cut and filtered.

Files without random access are copied to a folder of the caller.

A view without the slices that have no row of the result, and the filter for scans of the rest.

A filter is about rows of the result. Rows of a changelog may be filtered at once. Before a
projection to the present state, only the part on the primary key may be applied, since a row that
the filter drops may be the last one of its key. Before a projection to facts, filters on all
columns may be applied, since a retraction has the same values as the row it retracts; except for
operation, offset and system time. Source: Kartothek facts, "When pruning is sound".

Read a Parquet file in batches of rows that take a few megabytes after decoding.

A footer says how long a column is before it is compressed. For a dictionary column this says
little about the decoded size: if the dictionary is long, a few rows are decoded first and
measured. This limits the memory for usual files; for malicious files, the memory limit of the
reading process counts.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.slice_file import (
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    RowGroup,
    as_stated,
    row_groups,
    schema_of,
)
from odf_protocol.columns.stored_values import readable
from odf_protocol.errors import BadInput, Damaged
from odf_protocol.instant import Instant
from odf_protocol.kartothek.predicates import Predicate, mask_of
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash

from ...stores.ports.values import ObjectKind
from ..integrity.healing import hash_of_stream
from ..pruning.bounds import (
    BoundsIndex,
    BoundsOfSlice,
    SliceIndex,
    bounds_indices,
    columns_of,
    predicate_of,
    slices_to_open,
    weakened,
)
from ..pruning.filters import Filter
from ..pruning.footers import bounds_of_groups, stated_bounds
from ..pruning.learned import Bounds, LearnedBounds
from ..verify.source import AheadSource, HashingSource
from .rows import Projection
from .view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBounds:
    """Bounds and indices of slices that are known before they are read."""

    bounds: Mapping[str, Sequence[Bounds | None]] = field(default_factory=dict)
    """Bounds by column, in the order of the view's slices."""
    indices: Sequence[SliceIndex] = ()
    """Further indices of the view's slices."""


NOTHING_KNOWN = KnownBounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """A view as it is read for one result."""

    view: View
    """The view with only the slices that have to be opened."""
    schema: pa.Schema
    """Schema of the rows; all columns are nullable."""
    total: int
    """Number of slices before narrowing."""
    wanted: Predicate | None = None
    """The filter that rows of the result satisfy; None: no filter."""
    early: Predicate | None = None
    """The part of the filter that may be applied to rows of the changelog."""
    rows_before: int = 0
    """Number of rows in slices that were left out because all their rows are skipped."""
    learned: dict[tuple[str, str], Bounds] = field(default_factory=dict)
    """Bounds by hash of slice and column; filled while slices are read to their end."""
    by_footers: bool = False
    """Whether bounds in footers leave out row groups, too. Nothing is learned then."""

    @property
    def scanned(self) -> int:
        return len(self.view.slices)


def narrowed(
    view: View,
    filters: Sequence[Filter] = (),
    *,
    below: Projection = Projection.CHANGELOG,
    known: KnownBounds = NOTHING_KNOWN,
    footers: LearnedBounds | None = None,
) -> Narrowed:
    """Return the view narrowed to the slices that may have rows of the result. With `footers`, also
    by the bounds in footers, which are remembered there: see `pruning/footers.py` for who may.

    Raises:
        UnknownColumn, MalformedFilter.
    """
    schema = loosened(view.schema if view.schema is not None else pa.schema([]))
    total = len(view.slices)
    if not filters:
        return Narrowed(view=view, schema=schema, total=total)
    check_columns([each.column for each in filters], schema)
    wanted = predicate_of(filters, schema)
    early = weakened(wanted, early_columns(view, schema, below))
    offset = view.vocab.offset_column
    intervals = [
        (each.start, each.end) for each in (data.offset_interval for data, _ in view.slices)
    ]
    asked = columns_of(early or ())
    indices = [*bounds_indices(asked, schema, known.bounds, offset, intervals), *known.indices]
    if footers is not None:
        stated = stated_bounds(footers, asked, _openers(view))
        indices += bounds_indices(asked, schema, stated, offset, intervals)
    open_it = slices_to_open(total, early, schema, indices)
    slices = tuple(each for each, is_open in zip(view.slices, open_it, strict=True) if is_open)
    return Narrowed(
        view=replace(view, slices=slices),
        schema=schema,
        total=total,
        wanted=wanted,
        early=early,
        by_footers=footers is not None and early is not None,
    )


def _openers(view: View) -> dict[str, Callable[[], BinaryIO]]:
    """Return how the slices are opened, by hash; their bytes are not hashed."""
    return {
        str(data.physical_hash): partial(
            view.source.open_object, ObjectKind.DATA, data.physical_hash
        )
        for data, _ in view.slices
    }


def without_skipped(narrow: Narrowed, skip: int) -> Narrowed:
    """Leave out the first slices as long as all their rows are skipped."""
    before = 0
    for number, (data, _) in enumerate(narrow.view.slices):
        rows = data.offset_interval.count
        if before + rows > skip:
            view = replace(narrow.view, slices=narrow.view.slices[number:])
            return replace(narrow, view=view, rows_before=before)
        before += rows
    return replace(narrow, view=replace(narrow.view, slices=()), rows_before=before)


def early_columns(view: View, schema: pa.Schema, below: Projection) -> Collection[str]:
    """Return the columns by which a changelog may be filtered before a projection."""
    if below is Projection.CHANGELOG:
        return list(schema.names)
    if below is Projection.STATE:
        return view.key
    return [name for name in schema.names if name not in _added(view.vocab)]


def check_columns(names: Collection[str], schema: pa.Schema) -> None:
    """Check that the columns exist. Raise `UnknownColumn`."""
    for name in names:
        if name not in schema.names:
            raise BadInput(
                "UnknownColumn", f"the dataset has no column {name[:100]!r}", column=name[:100]
            )


def loosened(schema: pa.Schema) -> pa.Schema:
    """Return the schema with all columns nullable, since rows of older slices may lack one."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _added(vocab: Vocab) -> tuple[str, str, str]:
    """Return the columns in which a retraction differs from the row it retracts."""
    return vocab.offset_column, vocab.operation_type_column, vocab.system_time_column


BATCH_ROWS = 16_384
BATCH_BYTES = 8 * 1024 * 1024
PROBE_ROWS = 16
SHORT_BYTES = 64 * 1024
"""Size in bytes of a column chunk up to which its dictionary is not measured."""
_NUMBERED = frozenset({PLAIN_DICTIONARY, RLE_DICTIONARY})


def batches_of(
    file: pq.ParquetFile,
    stream: BinaryIO,
    *,
    columns: Sequence[str] | None = None,
    groups: Sequence[int] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these row groups (none: of all) in order, decoded by this thread, with
    texts that every reader takes. `stream` is the stream that the file was opened on.

    A file so short that a batch fits even if each row has all its bytes needs no look at its
    chunks, which would take longer than reading it."""
    asked: dict[str, Any] = {
        "columns": columns,
        "row_groups": list(groups or range(file.metadata.num_row_groups)),
        "use_threads": False,
    }
    is_short = file.metadata.num_rows * _size(file, stream) <= BATCH_BYTES
    widest, is_doubtful = (1, False) if is_short else _widest(row_groups(stream))
    if is_doubtful:
        probe = next(file.iter_batches(PROBE_ROWS, **asked), None)
        if probe is not None and probe.num_rows:
            widest = max(widest, probe.nbytes // probe.num_rows)
        del probe
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES // widest))
    yield from map(readable, file.iter_batches(rows, **asked))


def _size(file: pq.ParquetFile, stream: BinaryIO) -> int:
    """Return the size of a file, or of its row groups before they were compressed if that is more.
    Sizes of row groups can be asked of Arrow, unlike those of chunks, and are for usual files."""
    told = file.metadata
    groups = sum(told.row_group(at).total_byte_size for at in range(told.num_row_groups))
    return max(stream.seek(0, io.SEEK_END), int(groups))


def _widest(groups: Sequence[RowGroup]) -> tuple[int, bool]:
    """Return the bytes of a row according to the footer, and whether cells may be longer."""
    widest, is_doubtful = 1, not groups
    for group in groups:
        sizes = [chunk.total_uncompressed_size for chunk in group.chunks]
        if group.num_rows > 0:
            widest = max(widest, sum(sizes) // group.num_rows)
        is_doubtful |= any(
            size > SHORT_BYTES and not _NUMBERED.isdisjoint(chunk.encodings)
            for size, chunk in zip(sizes, group.chunks, strict=True)
        )
    return widest, is_doubtful


class UnreadableSlice(Damaged):
    """A data slice is not a Parquet file, or does not fit the schema of the dataset."""

    @classmethod
    def of(cls, name: Multihash, broken: Exception) -> UnreadableSlice:
        """Return the error for the slice of this hash, with the beginning of the reason."""
        return cls(f"data slice {name} cannot be read: {str(broken)[:200]}", object=f"data/{name}")


class SliceScan:
    """Rows of the slices of a narrowed view, oldest first; may be called several times.

    A call without offsets applies the early part of the filter. `known_until` leaves out rows of
    a later system time. With `once`, copies of files are removed when they have been read. With
    `ahead`, the source may open slices before their turn: for callers that read most of them. With
    `gathered`, batches may span several slices: for callers that read all.
    """

    def __init__(
        self,
        narrow: Narrowed,
        folder: Path,
        *,
        known_until: Instant | None = None,
        once: bool = False,
        ahead: bool = False,
        gathered: bool = False,
    ) -> None:
        self._narrow, self._view, self._schema = narrow, narrow.view, narrow.schema
        self._folder, self._known_until, self._once = folder, known_until, once
        self._ahead, self._gathered = ahead, gathered
        self._asked = columns_of(narrow.early or ())
        self._hashed: set[Multihash] = set()

    def __call__(
        self, columns: Sequence[str] | None, offsets: np.ndarray[Any, Any] | None
    ) -> Iterator[pa.RecordBatch]:
        batches = self._batches(columns, offsets)
        return _gathered(batches) if self._gathered else batches

    def _batches(
        self, columns: Sequence[str] | None, offsets: np.ndarray[Any, Any] | None
    ) -> Iterator[pa.RecordBatch]:
        if not self._view.slices:
            return
        offset = self._view.vocab.offset_column
        needed = self._schema.names if columns is None else list(columns)
        if offsets is not None and offset not in needed:
            needed = [*needed, offset]
        read = needed if offsets is not None else list(dict.fromkeys([*needed, *self._asked]))
        wanted = pa.schema([self._schema.field(name) for name in read])
        parts = self._view.slices
        if offsets is not None:
            parts = tuple(part for part in parts if len(_between(offsets, part[0])))
        streams = self._streams([data for data, _ in parts])
        for (data, recorded), stream in zip(parts, streams, strict=True):
            some = None if offsets is None else _between(offsets, data)
            late = self._known_until is not None and recorded > self._known_until
            rows = 0
            batches = self._rows(data, stream, wanted, late=late)
            if offsets is None and not late and not self._narrow.by_footers:
                batches = self._learning(data, batches)
            for batch in batches:
                rows += batch.num_rows
                if some is not None:
                    found = batch.column(offset).to_numpy().astype(np.int64)
                    batch = batch.filter(pa.array(np.isin(found, some)))
                elif self._narrow.early is not None:
                    fits = mask_of(self._narrow.early, batch.column, batch.num_rows)
                    batch = batch.filter(fits).select(needed)
                yield batch
            if late and rows == 0:
                return  # rows are in the order of their system times

    def _learning(
        self, data: DataSlice, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same rows; after the last one, record the bounds of the filtered columns."""
        name = str(data.physical_hash)
        unknown = [each for each in self._asked if (name, each) not in self._narrow.learned]
        seen = {each: BoundsOfSlice(self._schema.field(each).type) for each in unknown}
        for batch in batches:
            for column, bounds in seen.items():
                bounds.add(batch.column(column))
            yield batch
        for column, bounds in seen.items():
            if (found := bounds.bounds()) is not None:
                self._narrow.learned[name, column] = found

    def _rows(
        self, data: DataSlice, stream: BinaryIO, wanted: pa.Schema, *, late: bool
    ) -> Iterator[pa.RecordBatch]:
        time = self._view.vocab.system_time_column
        try:
            file = pq.ParquetFile(stream, pre_buffer=False)
            stated = schema_of(file)
            there = [n for n in wanted.names if n in file.schema_arrow.names]
            extra = [time] if late and time not in there else []
            groups = self._groups(file, stream)
            if groups is not None and not groups:
                return
            for batch in batches_of(file, stream, columns=[*there, *extra], groups=groups or ()):
                rows = as_stated(batch, stated)
                if late and self._known_until is not None:
                    known = rows.column(time).cast(pa.timestamp("ms"), safe=False)
                    limit = pa.scalar(self._known_until.millis, pa.int64())
                    rows = rows.filter(pc.less_equal(known.cast(pa.int64()), limit))
                yield fitted(rows, wanted)
        except MemoryError:  # Arrow's memory error is an `ArrowException` too
            raise
        except (pa.ArrowException, OSError, ValueError) as broken:
            raise UnreadableSlice.of(data.physical_hash, broken) from None

    def _streams(self, parts: Sequence[DataSlice]) -> Iterator[BinaryIO]:
        """Open the slices one after the other; each is closed when the next one is asked for."""
        if self._ahead and isinstance(self._view.source, AheadSource):
            named = ((data.physical_hash, data.size) for data in parts)
            for stream in self._view.source.open_each(ObjectKind.DATA, named):
                with stream:
                    yield stream
            return
        for data in parts:
            with self._opened(data) as stream:
                yield stream

    def _groups(self, file: pq.ParquetFile, stream: BinaryIO) -> list[int] | None:
        """Return the row groups that may have rows of the result; None: all."""
        early, count = self._narrow.early, file.metadata.num_row_groups
        if not self._narrow.by_footers or early is None or count == 1:
            return None
        groups = row_groups(stream, bounds=True)
        if len(groups) != count:
            return None
        stated = bounds_of_groups(file, groups, self._asked)
        indices = [
            BoundsIndex(name, self._schema.field(name).type, each) for name, each in stated.items()
        ]
        return [
            int(at) for at in np.flatnonzero(slices_to_open(count, early, self._schema, indices))
        ]

    @contextmanager
    def _opened(self, data: DataSlice) -> Iterator[BinaryIO]:
        """Open a slice whose hash was verified."""
        if isinstance(self._view.source, HashingSource):
            with self._view.source.open_whole(ObjectKind.DATA, data.physical_hash) as stream:
                yield stream
            return
        copy = self._folder / str(data.physical_hash)
        if not copy.exists():
            with self._view.source.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                if stream.seekable():
                    if data.physical_hash not in self._hashed:
                        _check_hash(data, hash_of_stream(stream))
                        self._hashed.add(data.physical_hash)
                    stream.seek(0)
                    yield stream
                    return
                with copy.open("wb") as out:
                    _check_hash(data, hash_of_stream(stream, out.write))
        with copy.open("rb") as again:
            yield again
        if self._once:
            copy.unlink()


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches: work on a batch of ten rows takes as long as on one of
    a thousand."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES // 2:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _check_hash(data: DataSlice, actual: Multihash) -> None:
    if actual != data.physical_hash:
        raise UnreadableSlice(
            f"data slice {data.physical_hash} is damaged: its bytes hash to {actual}",
            object=f"data/{data.physical_hash}",
        )


def _between(offsets: np.ndarray[Any, Any], data: DataSlice) -> np.ndarray[Any, Any]:
    interval = data.offset_interval
    first = np.searchsorted(offsets, interval.start, side="left")
    last = np.searchsorted(offsets, interval.end, side="right")
    return offsets[first:last]


def fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return the rows in these columns: fill missing columns with nulls, cast other types."""
    names = set(batch.schema.names)
    columns = [
        _fit(batch.column(field.name), field.type)
        if field.name in names
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _fit(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        members = [wanted.field(at) for at in range(wanted.num_fields)]
        there = {column.type.field(at).name for at in range(column.type.num_fields)}
        parts = [
            _fit(column.field(member.name), member.type)
            if member.name in there
            else pa.nulls(len(column), member.type)
            for member in members
        ]
        mask = pc.is_null(column) if column.null_count else None
        return pa.StructArray.from_arrays(parts, fields=members, mask=mask)
    return pc.cast(column, wanted)
