"""From a frame to a staged Parquet file: event time, clashing names, positions.

The staged file is what Spark reads. It has the batch's columns with top-level times in
milliseconds UTC, an event time column, and the position of every row in the input, which
makes every later order total. Few rows stay in memory until an engine asks for the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.instant import Instant

from ...readers.forms import PLAIN, Forms, not_of
from ...readers.rejected import Rejected, halved, shown
from ...readers.text import BadValue, cast_text
from ...slices.columns import POSITION, PROBLEM
from ...slices.conform import carrier
from ...slices.frame import BadInputSchema, BadRow, Frame
from ...slices.millis import to_millis
from ...slices.pieces import pieces, weight
from ...slices.schema import MILLIS, check_input, holds_null_type, is_text, same_type

Change = Callable[[pa.Array], pa.Array]
GROUP_ROWS = 1 << 17
GROUP_BYTES = 32 << 20
"""A row group of a staged file; what is not more stays in memory."""
BATCH_ROWS = 65_536
FIRST_MS = Instant.parse("0001-01-01T00:00:00Z").millis
LAST_MS = Instant.parse("9999-12-31T23:59:59.999Z").millis
DAY_MS = 86_400_000
OUT_OF_RANGE = (
    "the event time is outside of the years 1 to 9999; where a source declares no time, whole "
    "numbers are seconds since 1970"
)
_COME_BACK = frozenset(
    {
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.date32()),
        *(MILLIS, pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A staged batch. `schema` has the batch's own types, without the position."""

    path: Path
    schema: pa.Schema
    rows: int
    table: pa.Table | None = None
    """The rows, if they are in memory and not in the file."""
    event_time_nulls: int = 0
    ordered: bool = False
    """Whether event times ascend already; rows without one stand where the others do not."""
    size: int = 0
    """Bytes of the values."""

    def file(self) -> Path:
        """The staged file, written if it was not yet."""
        if self.table is not None and not self.path.exists():
            with _writer(self.path, self.table.schema) as writer:
                writer.write_table(self.table)
        return self.path

    def rows_of_all(self) -> pa.Table:
        """All rows, in memory."""
        return pq.read_table(self.path) if self.table is None else self.table

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, as they lie."""
        if self.table is not None:
            yield from self.table.to_batches(BATCH_ROWS)
            return
        with pq.ParquetFile(self.path) as file:
            yield from file.iter_batches(BATCH_ROWS)


def stage(
    frame: Frame,
    path: Path,
    *,
    vocab: Vocab,
    coerces: bool,
    takes_operations: bool,
    known: pa.Schema | None = None,
    rejected: Rejected | None = None,
    forms: Forms = PLAIN,
) -> Staged:
    """Write the frame's rows to `path`. `known` is the dataset's schema, if it has one, and
    `forms` how event times are written that nobody declared.
    Rows with a time that is none go into `rejected`, if that is where the frame put others.

    Raises:
        BadInputSchema: system columns in the batch, or an event time that is none.
        BadRow, InputTooLarge: what the frame raises while it is read.
    """
    names = list(frame.schema.names)
    if coerces:
        names = renamed(names, vocab, takes_operations=takes_operations)
    _check_distinct(names)
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(frame.schema, names, strict=True)]
    )
    changes: list[Change | None] = []
    fields = []
    for field in schema:
        field = _typed(field, vocab, known)
        is_event_time = field.name == vocab.event_time_column
        wanted, change = _change(field, coerces and is_event_time, known, forms)
        if is_event_time and wanted.type in (MILLIS, pa.date32()):
            change = partial(_event_times, field.name, change)
        fields.append(wanted)
        changes.append(change)
    schema = pa.schema(fields)
    check_input(schema, vocab, takes_operations=takes_operations)
    if vocab.event_time_column not in names:
        schema = schema.append(pa.field(vocab.event_time_column, _event_time(vocab, known)))
    if any(changes):
        frame = Frame(frame.schema, _changed(frame.batches, changes, rejected))
    seen, table = _write(frame, path, schema, schema.names.index(vocab.event_time_column))
    return Staged(
        path=path,
        table=table,
        schema=schema,
        rows=seen.rows,
        event_time_nulls=seen.nulls,
        ordered=seen.ascending and seen.nulls in (0, seen.rows),
        size=seen.size,
    )


def renamed(names: list[str], vocab: Vocab, *, takes_operations: bool) -> list[str]:
    """The names with an underscore before those that the node's own columns have."""
    clashes = clashing(vocab, takes_operations=takes_operations)
    return [f"_{name}" if name in clashes else name for name in names]


def clashing(vocab: Vocab, *, takes_operations: bool) -> set[str]:
    """Names of columns that only the node writes."""
    names = {vocab.offset_column, vocab.system_time_column}
    if not takes_operations:
        names.add(vocab.operation_type_column)
    return names


def _check_distinct(names: list[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at] or name in (POSITION, PROBLEM):
            raise BadInputSchema(f"column `{name}` clashes with another column", column=name)


def _event_time(vocab: Vocab, known: pa.Schema | None) -> pa.DataType:
    name = vocab.event_time_column
    return known.field(name).type if known is not None and name in known.names else MILLIS


def _typed(field: pa.Field, vocab: Vocab, known: pa.Schema | None) -> pa.Field:
    """A column inferred from nulls alone takes the type the dataset knows it by."""
    if not holds_null_type(field.type):
        return field
    if field.name == vocab.event_time_column:
        return field.with_type(_event_time(vocab, known))
    if known is not None and field.name in known.names:
        wanted = known.field(field.name).type
        return field.with_type(wanted) if same_type(field.type, wanted) else field
    return field


def _change(
    field: pa.Field, coerces: bool, known: pa.Schema | None, forms: Forms
) -> tuple[pa.Field, Change | None]:
    """What a column becomes, and how. `coerces`: it is an event time, and nobody declared it."""
    kind = field.type
    if coerces and pa.types.is_integer(kind):
        return field.with_type(MILLIS), _from_seconds
    stored = _stored_as(field.name, known)
    if coerces and is_text(kind):
        wanted = stored or MILLIS
        return field.with_type(wanted), lambda array: _from_text(array, field.name, wanted, forms)
    if coerces and pa.types.is_date(kind) and stored == MILLIS:
        return field.with_type(MILLIS), lambda array: pc.cast(array, MILLIS)
    if pa.types.is_timestamp(kind) and kind != MILLIS:
        return field.with_type(MILLIS), to_millis
    return field, None


def _event_times(name: str, change: Change | None, given: pa.Array) -> pa.Array:
    """Event times as they are stored. Raises `BadRow` for one that is no instant."""
    times = change(given) if change else given
    days = pa.types.is_date(times.type)
    unit, count = ("days", DAY_MS) if days else ("ms", 1)
    counts = pc.cast(pc.cast(times, pa.int32() if days else pa.int64()), pa.int64())
    first, last = FIRST_MS // count, LAST_MS // count
    known = pc.and_(pc.greater_equal(counts, first), pc.less_equal(counts, last))
    if (at := pc.index(known, False).as_py()) >= 0:
        value = given[at].as_py() if pa.types.is_integer(given.type) else f"{counts[at]} {unit}"
        raise BadRow(OUT_OF_RANGE, column=name, value=value)
    return times


def _from_seconds(array: pa.Array) -> pa.Array:
    try:
        seconds = pc.cast(array, pa.int64())
        return pc.cast(pc.cast(seconds, pa.timestamp("s", "UTC")), MILLIS)
    except pa.ArrowInvalid:
        raise BadRow(OUT_OF_RANGE) from None


def _stored_as(name: str, known: pa.Schema | None) -> pa.DataType | None:
    """How the dataset keeps its event time: as days, or in milliseconds."""
    if known is None or name not in known.names:
        return None
    return pa.date32() if pa.types.is_date(known.field(name).type) else MILLIS


def _from_text(array: pa.Array, name: str, wanted: pa.DataType, forms: Forms) -> pa.Array:
    try:
        return cast_text(forms.iso(pc.cast(array, pa.string()), wanted), wanted)
    except BadValue as bad:
        reason = f"the event time is {not_of(wanted, forms)}"
        raise BadRow(reason, column=name, value=bad.value) from None


@dataclass(slots=True)
class _Seen:
    """What is known of the rows that were staged so far."""

    rows: int = 0
    nulls: int = 0
    size: int = 0
    ascending: bool = True
    latest: int | None = None

    def add(self, batch: pa.RecordBatch, times: pa.Array) -> None:
        self.rows += batch.num_rows
        self.size += weight(batch)
        self.nulls += times.null_count
        if not self.ascending or times.null_count == len(times):
            return
        known = times.drop_null()
        counts = known.view(f"int{known.type.bit_width}").to_numpy()
        before = counts[0] if self.latest is None else self.latest
        self.ascending = bool(counts[0] >= before and (counts[1:] >= counts[:-1]).all())
        self.latest = int(counts[-1])


def _changed(
    batches: Iterator[pa.RecordBatch], changes: list[Change | None], rejected: Rejected | None
) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        change = partial(_change_rows, batch, changes)
        if rejected is None:
            yield change(0, batch.num_rows)
        else:
            yield from halved(batch.num_rows, change, partial(_set_aside, batch, done, rejected))
        done += batch.num_rows


def _change_rows(
    batch: pa.RecordBatch, changes: list[Change | None], start: int, stop: int
) -> pa.RecordBatch:
    columns = [
        change(column) if change else column
        for column, change in zip(batch.slice(start, stop - start).columns, changes, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _set_aside(batch: pa.RecordBatch, done: int, rejected: Rejected, at: int, bad: BadRow) -> None:
    rejected.add_later(done + at, bad, shown(batch, at))


def _write(
    frame: Frame, path: Path, schema: pa.Schema, event_time: int
) -> tuple[_Seen, pa.Table | None]:
    """The rows go to the file; those of one group of plain columns are given back instead."""
    seen = _Seen()
    groups = _groups(frame, schema, event_time, seen)
    first, second = next(groups, None), next(groups, None)
    if first is None:
        first = pa.Table.from_batches([], _stored(schema))
    if second is None and all(map(_comes_back, first.schema.types)):
        path.unlink(missing_ok=True)  # what an earlier attempt left is not these rows
        return seen, first
    with _writer(path, first.schema) as writer:
        for group in chain((first,), () if second is None else (second,), groups):
            writer.write_table(group)
    return seen, None


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path, schema, compression="lz4", store_schema=False, use_dictionary=False
    )


def _comes_back(kind: pa.DataType) -> bool:
    """Whether a column has the same type again when it is read from a file."""
    return kind in _COME_BACK or pa.types.is_decimal128(kind)


def _stored(schema: pa.Schema) -> pa.Schema:
    carried = [field.with_type(carrier(field.type)) for field in schema]
    return pa.schema([*carried, pa.field(POSITION, pa.int64(), nullable=False)])


def _groups(frame: Frame, schema: pa.Schema, event_time: int, seen: _Seen) -> Iterator[pa.Table]:
    """The rows as they are stored, in groups; what they are is noted in `seen`."""
    stored = _stored(schema)
    for group in pieces(frame.batches, GROUP_ROWS, GROUP_BYTES):
        batches = []
        for batch in group.batches:
            columns = batch.columns
            if len(columns) < len(schema):
                columns.append(pa.nulls(batch.num_rows, schema.field(len(columns)).type))
            times = columns[event_time]
            carried = [
                column if column.type == field.type else pc.cast(column, field.type)
                for column, field in zip(columns, stored, strict=False)
            ]
            positions = np.arange(seen.rows, seen.rows + batch.num_rows, dtype=np.int64)
            batches.append(
                pa.RecordBatch.from_arrays([*carried, pa.array(positions)], schema=stored)
            )
            seen.add(batches[-1], times)
        table = pa.Table.from_batches(batches)
        yield table if table.schema.equals(stored) else table.cast(stored)
