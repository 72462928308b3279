"""Scan all rows of a view, slice by slice: in the columns of one schema, cut and filtered.

Files without random access are copied to a folder of the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.errors import Damaged
from odf_protocol.instant import Instant
from odf_protocol.kartothek.predicates import mask_of
from odf_protocol.metadata.data import DataSlice
from odf_protocol.multihash import Multihash
from odf_protocol.slice_file import as_stated, schema_of

from ...stores.ports.values import ObjectKind
from ..integrity.hashing import hash_of_stream
from ..pruning.bounds import BoundsOfSlice
from ..pruning.predicates import columns_of
from ..verify.source import HashingSource
from .batches import batches_of
from .narrowed import Narrowed


class UnreadableSlice(Damaged):
    """A data slice is not a Parquet file, or does not fit the schema of the dataset."""


class SliceScan:
    """Rows of the slices of a narrowed view, oldest first; may be called several times.

    A call without offsets applies the early part of the filter. `known_until` leaves out rows of
    a later system time. With `once`, copies of files are removed when they have been read.
    """

    def __init__(
        self,
        narrow: Narrowed,
        folder: Path,
        *,
        known_until: Instant | None = None,
        once: bool = False,
    ) -> None:
        self._narrow, self._view, self._schema = narrow, narrow.view, narrow.schema
        self._folder, self._known_until, self._once = folder, known_until, once
        self._asked = columns_of(narrow.early or ())
        self._hashed: set[Multihash] = set()

    def __call__(
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
        for data, recorded in self._view.slices:
            some = None if offsets is None else _between(offsets, data)
            if some is not None and len(some) == 0:
                continue
            late = self._known_until is not None and recorded > self._known_until
            rows = 0
            batches = self._rows(data, wanted, late=late)
            if offsets is None and not late:
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

    def _rows(self, data: DataSlice, wanted: pa.Schema, *, late: bool) -> Iterator[pa.RecordBatch]:
        time = self._view.vocab.system_time_column
        with self._opened(data) as stream:
            try:
                file = pq.ParquetFile(stream, pre_buffer=False)
                stated = schema_of(file)
                there = [n for n in wanted.names if n in file.schema_arrow.names]
                extra = [time] if late and time not in there else []
                for batch in batches_of(file, stream, columns=[*there, *extra]):
                    rows = as_stated(batch, stated)
                    if late and self._known_until is not None:
                        known = rows.column(time).cast(pa.timestamp("ms"), safe=False)
                        limit = pa.scalar(self._known_until.millis, pa.int64())
                        rows = rows.filter(pc.less_equal(known.cast(pa.int64()), limit))
                    yield fitted(rows, wanted)
            except MemoryError:  # Arrow's memory error is an `ArrowException` too
                raise
            except (pa.ArrowException, OSError, ValueError) as broken:
                raise UnreadableSlice(
                    f"data slice {data.physical_hash} cannot be read: {str(broken)[:200]}",
                    object=f"data/{data.physical_hash}",
                ) from None

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
