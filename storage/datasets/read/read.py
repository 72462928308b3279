"""Reading a dataset as a table, wherever it lies: its slices in the schema of one block.

Slices of older schemas get what they lack as nulls, and their columns in the order of the
schema. Files that cannot be read from any place are copied to a temporary folder, which goes
with the read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_node.protocol.errors import BadInput, Damaged
from odf_node.protocol.metadata.data import DataSlice
from odf_node.protocol.multihash import Multihash

from ...stores.ports.values import ObjectKind
from ..integrity.hashing import hash_of_stream
from ..verify.source import HashingSource
from .batches import batches_of
from .rows import WHOLE, Cut, Projection, Scan, project
from .view import View


class UnreadableSlice(Damaged):
    """A data slice is no Parquet file, or not one of the dataset's schema."""


class UnknownColumn(BadInput):
    """A column that the dataset does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be read. `limit` None: to the end."""

    projection: Projection = Projection.CHANGELOG
    cut: Cut = WHOLE
    columns: tuple[str, ...] | None = None
    skip: int = 0
    limit: int | None = None


@contextmanager
def reading(view: View, asked: Asked) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Schema and rows, in offset order; temporary files go when the context ends.

    Raises:
        UnknownColumn, DatasetHasNoPrimaryKeys, UnusableKey.
        ObjectDamaged, ObjectHealing: a slice of a dataset of this node is missing; while rows
            are read, one is damaged.
        UnreadableSlice: while rows are read. NotFound: a slice elsewhere.
    """
    schema = loosened(view.schema if view.schema is not None else pa.schema([]))
    keyed = asked.projection is Projection.STATE and view.schema is not None
    for name in (*(asked.columns or ()), *(view.key if keyed else ())):
        if name not in schema.names:
            raise UnknownColumn(f"the dataset has no column {name[:100]!r}", column=name[:100])
    shown = schema if asked.columns is None else pa.schema([schema.field(n) for n in asked.columns])
    _require_slices(view, asked)
    with tempfile.TemporaryDirectory(prefix="read-") as folder:
        scan = _Scan(view, schema, asked, Path(folder))
        batches = project(
            scan,
            view.vocab,
            asked.projection,
            key=view.key,
            cut=asked.cut,
            columns=asked.columns,
        )
        yield shown, _part(batches, asked.skip, asked.limit)


@contextmanager
def scanning(view: View) -> Iterator[Scan]:
    """All rows, as often as they are asked for; temporary files go when the context ends."""
    schema = loosened(view.schema if view.schema is not None else pa.schema([]))
    with tempfile.TemporaryDirectory(prefix="read-") as folder:
        yield _Scan(view, schema, Asked(projection=Projection.FACTS), Path(folder))


def _require_slices(view: View, asked: Asked) -> None:
    """What is to be read is here, as far as a look tells: said before the first row is shown."""
    if isinstance(view.source, HashingSource):
        some = _asked_slices([data for data, _ in view.slices], asked)
        view.source.require(ObjectKind.DATA, ((data.physical_hash, data.size) for data in some))


def _asked_slices(slices: Sequence[DataSlice], asked: Asked) -> Iterator[DataSlice]:
    """A page of a changelog needs the slices before its end only."""
    is_page = asked.projection is Projection.CHANGELOG and asked.cut == WHOLE
    left = None if asked.limit is None or not is_page else asked.skip + asked.limit
    for data in slices:
        if left is not None and left <= 0:
            return
        yield data
        if left is not None:
            left -= data.offset_interval.end - data.offset_interval.start + 1


def _part(
    batches: Iterator[pa.RecordBatch], skip: int, limit: int | None
) -> Iterator[pa.RecordBatch]:
    left = limit
    while left is None or left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        piece = batch.slice(skip, left)
        skip = 0
        left = None if left is None else left - piece.num_rows
        yield piece


class _Scan:
    """Rows of all slices, oldest first; may be run several times."""

    def __init__(self, view: View, schema: pa.Schema, asked: Asked, folder: Path) -> None:
        self._view, self._schema, self._folder = view, schema, folder
        self._known_until = asked.cut.system_time
        self._once = asked.projection is Projection.CHANGELOG

    def __call__(
        self, columns: Sequence[str] | None, offsets: np.ndarray[Any, Any] | None
    ) -> Iterator[pa.RecordBatch]:
        if not self._view.slices:
            return
        offset = self._view.vocab.offset_column
        needed = self._schema.names if columns is None else list(columns)
        if offsets is not None and offset not in needed:
            needed = [*needed, offset]
        wanted = pa.schema([self._schema.field(name) for name in needed])
        for data, recorded in self._view.slices:
            some = None if offsets is None else _between(offsets, data)
            if some is not None and len(some) == 0:
                continue
            late = self._known_until is not None and recorded > self._known_until
            rows = 0
            for batch in self._rows(data, wanted, late=late):
                rows += batch.num_rows
                if some is not None:
                    found = batch.column(offset).to_numpy().astype(np.int64)
                    batch = batch.filter(pa.array(np.isin(found, some)))
                yield batch
            if late and rows == 0:
                return  # rows are in the order of their system times

    def _rows(self, data: DataSlice, wanted: pa.Schema, *, late: bool) -> Iterator[pa.RecordBatch]:
        time = self._view.vocab.system_time_column
        with self._opened(data) as stream:
            try:
                file = pq.ParquetFile(stream, pre_buffer=False)
                there = [n for n in wanted.names if n in file.schema_arrow.names]
                extra = [time] if late and time not in there else []
                for batch in batches_of(file, stream, columns=[*there, *extra]):
                    rows = batch
                    if late and self._known_until is not None:
                        known = rows.column(time).cast(pa.timestamp("ms"), safe=False)
                        limit = pa.scalar(self._known_until.millis, pa.int64())
                        rows = rows.filter(pc.less_equal(known.cast(pa.int64()), limit))
                    yield fitted(rows, wanted)
            except MemoryError:  # Arrow's is one of its other errors as well
                raise
            except (pa.ArrowException, OSError, ValueError) as broken:
                raise UnreadableSlice(
                    f"data slice {data.physical_hash} cannot be read: {str(broken)[:200]}",
                    object=f"data/{data.physical_hash}",
                ) from None

    @contextmanager
    def _opened(self, data: DataSlice) -> Iterator[BinaryIO]:
        """The bytes of a slice, hashed."""
        if isinstance(self._view.source, HashingSource):
            with self._view.source.open_whole(ObjectKind.DATA, data.physical_hash) as stream:
                yield stream
            return
        copy = self._folder / str(data.physical_hash)
        if not copy.exists():
            with self._view.source.open_object(ObjectKind.DATA, data.physical_hash) as stream:
                if stream.seekable():
                    _check_hash(data, hash_of_stream(stream))
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
    """The same rows in these columns: what is missing is null, what differs is cast."""
    names = set(batch.schema.names)
    columns = [
        _fit(batch.column(field.name), field.type)
        if field.name in names
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def loosened(schema: pa.Schema) -> pa.Schema:
    """No column is required: rows of older slices may lack one."""
    return pa.schema([field.with_nullable(True) for field in schema])


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
