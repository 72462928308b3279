"""Facts of the columns of a dataset: nulls and extremes of all its rows, and rows spread over it.

Footers of slices say nulls and extremes of numbers, dates and times. Of other columns, and where a
footer does not say it, the values are read, up to a limit of cells; bounds of floats in footers are
never used, since they leave NaN out.

Read the last rows of a dataset from its newest slices, without earlier row groups.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.errors import Damaged
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash
from odf_storage.datasets.read.read import scanning
from odf_storage.datasets.read.records import DataFormat, shaped, values
from odf_storage.datasets.read.rows import live_facts
from odf_storage.datasets.read.scan import batches_of, fitted, loosened
from odf_storage.datasets.read.view import View
from odf_storage.stores.ports.values import ObjectKind

from ..readers.tasks import Profile, Profiled, answer_too_long

Open = Callable[[ObjectKind, Multihash], BinaryIO]


def last_rows(
    slices: Sequence[DataSlice],
    opened: Open,
    schema: pa.Schema,
    *,
    skip: int,
    limit: int,
    max_bytes: int,
) -> pa.Table | None:
    """Return the `limit` rows before the last `skip`, in offset order and in the columns of the
    dataset's `schema`, since slices may hold them as other Arrow types; None without slices.

    Raises:
        AnswerTooLong: the rows have more than `max_bytes`. SliceUnreadable.
    """
    tables: list[pa.Table] = []
    wanted, left, shown = skip + limit, max_bytes, loosened(schema)
    for piece in reversed(slices):
        table = _last_of_slice(piece, opened, shown, wanted, left)
        wanted, left = wanted - table.num_rows, left - table.nbytes
        tables.insert(0, table)
    if not tables:
        return None
    whole = pa.concat_tables(tables)
    end = max(0, whole.num_rows - skip)
    start = max(0, end - limit)
    return whole.slice(start, end - start)


def last_standing(view: View, *, skip: int, limit: int) -> tuple[pa.Table, int]:
    """Return the `limit` current rows before the last `skip`, in offset order, and the number of
    all current rows. Raises the errors of reading slices."""
    with scanning(view) as scan:
        standing = live_facts(scan, view.vocab)
        end = max(0, len(standing) - skip)
        chosen = standing[max(0, end - limit) : end]
        schema = loosened(view.schema if view.schema is not None else pa.schema([]))
        return pa.Table.from_batches(scan(None, chosen), schema), len(standing)


def _last_of_slice(
    piece: DataSlice, opened: Open, schema: pa.Schema, wanted: int, max_bytes: int
) -> pa.Table:
    with opened(ObjectKind.DATA, piece.physical_hash) as file:
        try:
            parquet = pq.ParquetFile(file, pre_buffer=False)
            groups, skipped = _needed_groups(parquet.metadata, wanted)
            there = [name for name in schema.names if name in parquet.schema_arrow.names]
            batches = batches_of(parquet, file, columns=there, groups=groups)
            rows = (fitted(batch, schema) for batch in _drop_first(batches, skipped))
            return pa.Table.from_batches(_bounded(rows, max_bytes), schema)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as broken:
            raise Damaged(
                "SliceUnreadable",
                f"data slice {piece.physical_hash} cannot be read: {str(broken)[:200]}",
                object=f"data/{piece.physical_hash}",
            ) from None


def _bounded(batches: Iterator[Any], max_bytes: int) -> Iterator[Any]:
    left = max_bytes
    for batch in batches:
        left -= batch.nbytes
        if left < 0:
            raise answer_too_long(max_bytes)
        yield batch


def _needed_groups(metadata: Any, wanted: int) -> tuple[Sequence[int], int]:
    """Return the last row groups with `wanted` rows, and the number of surplus rows in them."""
    rows, first = 0, metadata.num_row_groups
    while first > 0 and rows < wanted:
        first -= 1
        rows += metadata.row_group(first).num_rows
    return range(first, metadata.num_row_groups), max(0, rows - wanted)


def _drop_first(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    for batch in batches:
        if rows >= batch.num_rows:
            rows -= batch.num_rows
        else:
            yield batch.slice(rows)
            rows = 0


SPREAD = 40
"""Number of places in a dataset from which sample rows are taken."""
PLACE_ROWS = 65_536
"""Limit of the rows of a place that are decoded to take some of them."""
TEXT_CHARS = 1_000
"""Length at which texts of the sample are cut off."""
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
Ends = tuple[pa.Scalar, pa.Scalar]


def profiled(
    view: View, names: Sequence[str], *, known: Profile | None, cells: int, rows: int
) -> Profiled:
    """Return the facts of these columns, and about `rows` rows spread over the slices.

    `known` are the facts of the first slices. At most `cells` values are read for the others; a
    column that would take more has no facts. Raises `SliceUnreadable`.
    """
    schema = loosened(view.schema if view.schema is not None else pa.schema([]))
    shown = pa.schema([schema.field(name) for name in names])
    facts = _Facts(shown, known)
    for data, _ in view.slices[facts.slices :]:
        with _opened(view, data) as (stream, file):
            cells = facts.add(stream, file, cells)
    return Profiled(facts.profile(), facts.texts(), _sample(view, shown, rows))


class _Facts:
    """Nulls and extremes of columns, slice by slice."""

    def __init__(self, schema: pa.Schema, known: Profile | None) -> None:
        self._schema = schema
        self.slices, self._rows = (0, 0) if known is None else (known.slices, known.rows)
        self._nulls = dict.fromkeys(schema.names, 0) if known is None else dict(known.nulls)
        self._ends: dict[str, Ends] = {}
        if known is not None and known.ends:
            found = pa.ipc.open_stream(known.ends).read_all()
            self._ends = {n: (found[n][0], found[n][1]) for n in found.column_names}

    def add(self, stream: BinaryIO, file: pq.ParquetFile, cells: int) -> int:
        """Add a slice; return how many cells may still be read."""
        leaves = {file.schema.column(at).path: at for at in range(len(file.schema))}
        there, unsaid = set(file.schema_arrow.names), []
        for name in list(self._nulls):
            if name not in there:
                self._nulls[name] += file.metadata.num_rows
            elif (told := _told(file, leaves.get(name), self._schema.field(name))) is not None:
                self._add(name, *told)
            else:
                unsaid.append(name)
        cells -= len(unsaid) * file.metadata.num_rows
        if cells < 0:
            for name in unsaid:
                del self._nulls[name]
                self._ends.pop(name, None)
            unsaid, cells = [], max(0, cells + len(unsaid) * file.metadata.num_rows)
        wanted = pa.schema([self._schema.field(name) for name in unsaid])
        for batch in batches_of(file, stream, columns=unsaid) if unsaid else ():
            for name, column in zip(unsaid, fitted(batch, wanted).columns, strict=True):
                self._add(name, column.null_count, _ends(column))
        self.slices += 1
        self._rows += file.metadata.num_rows
        return cells

    def _add(self, name: str, nulls: int, ends: Ends | None) -> None:
        self._nulls[name] += nulls
        if ends is None:
            return
        both = [*self._ends.get(name, ()), *ends]
        self._ends[name] = _ends(pa.array(both, both[0].type)) or ends

    def profile(self) -> Profile:
        sink = io.BytesIO()
        table = pa.table({name: pa.array(ends) for name, ends in self._ends.items()})
        with pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        return Profile(self.slices, self._rows, self._nulls, sink.getvalue())

    def texts(self) -> dict[str, list[Any]]:
        return {name: values(pa.array(ends, ends[0].type)) for name, ends in self._ends.items()}


def _ends(column: pa.Array) -> Ends | None:
    """Return the extremes of the values, NaN aside; None if there are none, or no order."""
    kind = column.type
    if not has_ends(kind):
        return None
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        column = column.filter(pc.invert(pc.fill_null(pc.is_nan(column), True)))
    found = pc.min_max(column)
    return (found["min"], found["max"]) if found["min"].is_valid else None


def has_ends(kind: pa.DataType) -> bool:
    """Return whether a least and a greatest value of the type are shown."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_time(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def _told(file: pq.ParquetFile, at: int | None, field: pa.Field) -> tuple[int, Ends | None] | None:
    """Return the nulls and extremes that the footer says of a column; None if it does not say
    both, or not in a form that is exact."""
    if at is None or pa.types.is_nested(field.type):
        return None
    leaf, nulls, ends = file.schema.column(at), 0, []
    for group in range(file.metadata.num_row_groups):
        chunk = file.metadata.row_group(group).column(at)
        said = chunk.statistics
        if said is None or not said.has_null_count:
            return None
        nulls += said.null_count
        if said.null_count == chunk.num_values:
            continue
        if not said.has_min_max or (both := _exact(leaf, said, field.type)) is None:
            return None
        ends.append(both)
    if not ends:
        return nulls, None
    return nulls, _ends(pa.concat_arrays(ends))


def _exact(leaf: Any, said: Any, kind: pa.DataType) -> pa.Array | None:
    """Return the two extremes of a row group as values of the type; None if that is not safe."""
    logical = json.loads(leaf.logical_type.to_json())
    try:
        if pa.types.is_timestamp(kind) and logical["Type"] == "Timestamp":
            raw = pa.array([said.min_raw, said.max_raw], pa.int64())
            return raw.cast(pa.timestamp(_UNITS[logical["timeUnit"]], kind.tz)).cast(kind)
        if pa.types.is_date(kind) and logical["Type"] == "Date":
            return pa.array([said.min_raw, said.max_raw], pa.int32()).cast(pa.date32()).cast(kind)
        if pa.types.is_integer(kind) and logical["Type"] in ("Int", "None"):
            return pa.array([said.min, said.max], kind)
        if pa.types.is_decimal(kind) and logical["Type"] == "Decimal":
            return pa.array([said.min, said.max], kind)
    except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError):
        return None
    return None


def _sample(view: View, schema: pa.Schema, rows: int) -> dict[str, list[Any]]:
    """Return rows from up to `SPREAD` places of the dataset, column by column, as JSON values."""
    count = len(view.slices)
    if not count or not rows:
        return {}
    shown = pa.schema([each for each in schema if has_ends(each.type)])
    chosen = sorted({int(at) for at in np.linspace(0, count - 1, min(SPREAD, count)).round()})
    total = sum(_rows_of(view.slices[at][0]) for at in chosen)
    tables: list[pa.Table] = []
    for at in chosen:
        data = view.slices[at][0]
        share = max(1, round(rows * _rows_of(data) / total))
        with _opened(view, data) as (stream, file):
            tables += _of_slice(stream, file, shown, share, -(-SPREAD // len(chosen)))
    return dict(shaped(pa.concat_tables(tables), DataFormat.SOA)) if tables else {}


def _of_slice(
    stream: BinaryIO, file: pq.ParquetFile, schema: pa.Schema, rows: int, places: int
) -> Iterator[pa.Table]:
    """Yield about so many rows from row groups of a slice, evenly."""
    groups = [n for n in range(file.metadata.num_row_groups) if file.metadata.row_group(n).num_rows]
    places = min(places, len(groups), rows)
    if not places:
        return
    there = [name for name in schema.names if name in file.schema_arrow.names]
    for at in sorted({int(at) for at in np.linspace(0, len(groups) - 1, places).round()}):
        held: list[pa.RecordBatch] = []
        for batch in batches_of(file, stream, columns=there, groups=[groups[at]]):
            held.append(fitted(batch, schema))
            if sum(each.num_rows for each in held) >= PLACE_ROWS:
                break
        table = pa.Table.from_batches(held, schema)
        share = min(table.num_rows, max(1, rows // places))
        taken = table.take(np.linspace(0, table.num_rows - 1, share).round().astype(np.int64))
        yield pa.table([_short(column) for column in taken.columns], schema=schema)


def _short(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return pc.utf8_slice_codeunits(column, 0, TEXT_CHARS) if is_text else column


def _rows_of(data: DataSlice) -> int:
    return data.offset_interval.count


@contextmanager
def _opened(view: View, data: DataSlice) -> Iterator[tuple[BinaryIO, pq.ParquetFile]]:
    """Open a slice whose hash was verified. Raises `SliceUnreadable`."""
    with view.source.open_object(ObjectKind.DATA, data.physical_hash) as stream:
        try:
            yield stream, pq.ParquetFile(stream, pre_buffer=False)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as broken:
            raise Damaged(
                "SliceUnreadable",
                f"data slice {data.physical_hash} cannot be read: {str(broken)[:200]}",
                object=f"data/{data.physical_hash}",
            ) from None
