"""From a frame to rows that can be merged: event time, clashing names, positions.

Top-level times become milliseconds UTC. Each row has an event time column; its position in the
input makes every later order total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.instant import Instant

from ..readers.forms import PLAIN, Forms, not_of
from ..readers.rejected import Rejected, halved
from ..readers.text import BadValue, cast_text
from ..slices.columns import POSITION
from ..slices.frame import BadInputSchema, BadRow, Frame
from ..slices.millis import to_millis
from ..slices.schema import MILLIS, check_input, holds_null_type, is_text, same_type
from .bad_times import BadTimes

Change = Callable[[pa.Array], pa.Array]
FIRST_MS = Instant.parse("0001-01-01T00:00:00Z").millis
LAST_MS = Instant.parse("9999-12-31T23:59:59.999Z").millis
DAY_MS = 86_400_000
OUT_OF_RANGE = (
    "the event time is outside of the years 1 to 9999; where a source declares no time, whole "
    "numbers are seconds since 1970"
)


@dataclass(slots=True)
class Seen:
    """Facts about the rows that have passed."""

    rows: int = 0
    nulls: int = 0
    ascending: bool = True
    first: int | None = None
    latest: int | None = None
    """`first` and `latest` event times, in the unit of their column."""

    def add(self, rows: int, times: pa.Array) -> None:
        self.rows += rows
        self.nulls += times.null_count
        if not self.ascending or times.null_count == len(times):
            return
        counts = _counts(times)
        before = counts[0] if self.latest is None else self.latest
        self.ascending = bool(counts[0] >= before and (counts[1:] >= counts[:-1]).all())
        self.first = int(counts[0]) if self.first is None else self.first
        self.latest = int(counts[-1])


@dataclass(frozen=True, slots=True)
class Normalized:
    """Rows with the columns of the batch, an event time, and the position in the frame."""

    schema: pa.Schema
    """Schema without the position."""
    batches: Iterator[pa.RecordBatch]
    seen: Seen
    """Complete when all batches are consumed."""


def normalized(
    frame: Frame,
    *,
    vocab: Vocab,
    coerces: bool,
    takes_operations: bool,
    known: pa.Schema | None = None,
    rejected: Rejected | None = None,
    forms: Forms = PLAIN,
) -> Normalized:
    """Convert the frame's rows to the form in which they are merged. `known` is the dataset's
    schema, if it has one; `forms` are the formats of undeclared event times. Rows with an invalid
    time are added to `rejected`, if the frame also sets bad rows aside there. Such errors have the
    line of their row, if the format has lines.

    Raises:
        BadInputSchema: system columns in the batch, or an event time that is none.
        BadRow, InputTooLarge: what the frame raises while it is read.
    """
    names = list(frame.schema.names)
    if coerces:
        names = renamed(names, vocab, takes_operations=takes_operations)
    _check_distinct(names)
    changes: dict[int, Change] = {}
    fields = []
    for at, (given, name) in enumerate(zip(frame.schema, names, strict=True)):
        field = _typed(given.with_name(name), vocab, known)
        is_event_time = field.name == vocab.event_time_column
        wanted, change = _change(field, coerces and is_event_time, known, forms)
        if is_event_time and wanted.type in (MILLIS, pa.date32()):
            change = partial(_event_times, field.name, change)
        fields.append(wanted)
        if change is not None:
            changes[at] = change
    schema = pa.schema(fields)
    check_input(schema, vocab, takes_operations=takes_operations)
    if vocab.event_time_column not in names:
        schema = schema.append(pa.field(vocab.event_time_column, _event_time(vocab, known)))
    batches = frame.batches
    if changes:
        batches = _changed(batches, changes, BadTimes(frame.lines, rejected))
    seen = Seen()
    return Normalized(schema, _numbered(batches, schema, vocab.event_time_column, seen), seen)


def renamed(names: list[str], vocab: Vocab, *, takes_operations: bool) -> list[str]:
    """Return the names, with an underscore before each name that the node uses for its own
    columns."""
    clashes = clashing(vocab, takes_operations=takes_operations)
    return [f"_{name}" if name in clashes else name for name in names]


def clashing(vocab: Vocab, *, takes_operations: bool) -> set[str]:
    """Return the names of columns that only the node writes."""
    names = {vocab.offset_column, vocab.system_time_column}
    if not takes_operations:
        names.add(vocab.operation_type_column)
    return names


def _check_distinct(names: list[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at] or name == POSITION:
            raise BadInputSchema(f"column `{name}` clashes with another column", column=name)


def _event_time(vocab: Vocab, known: pa.Schema | None) -> pa.DataType:
    name = vocab.event_time_column
    return known.field(name).type if known is not None and name in known.names else MILLIS


def _typed(field: pa.Field, vocab: Vocab, known: pa.Schema | None) -> pa.Field:
    """Give a column that was inferred from nulls alone the type that the dataset has for it."""
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
    """Return a column's new field, and its conversion. `coerces` means an undeclared event time."""
    kind = field.type
    if coerces and pa.types.is_integer(kind):
        return field.with_type(MILLIS), partial(_from_seconds, field.name)
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
    """Convert event times to the stored form. Raises `BadRow` for an invalid instant."""
    times = change(given) if change else given
    if times.null_count == len(times):
        return times
    days = pa.types.is_date(times.type)
    unit, count = ("days", DAY_MS) if days else ("ms", 1)
    first, last = FIRST_MS // count, LAST_MS // count
    known = _counts(times)
    if known.min() < first or known.max() > last:
        counts = pc.cast(times, pa.int32() if days else pa.int64())
        fits = pc.and_(pc.greater_equal(counts, first), pc.less_equal(counts, last))
        at = pc.index(fits, False).as_py()
        value = given[at].as_py() if pa.types.is_integer(given.type) else f"{counts[at]} {unit}"
        raise BadRow(OUT_OF_RANGE, column=name, value=value)
    return times


def _counts(times: pa.Array) -> npt.NDArray[Any]:
    """Return the times that are not null as numbers of their unit; at least one is not."""
    known = times.drop_null() if times.null_count else times
    return np.asarray(known.view(f"int{known.type.bit_width}"))


def _from_seconds(name: str, array: pa.Array) -> pa.Array:
    try:
        seconds = pc.cast(array, pa.int64())
        return pc.cast(pc.cast(seconds, pa.timestamp("s", "UTC")), MILLIS)
    except pa.ArrowInvalid:
        raise BadRow(OUT_OF_RANGE, column=name) from None


def _stored_as(name: str, known: pa.Schema | None) -> pa.DataType | None:
    """Return the type in which the dataset stores event times: days, or milliseconds."""
    if known is None or name not in known.names:
        return None
    return pa.date32() if pa.types.is_date(known.field(name).type) else MILLIS


def _from_text(array: pa.Array, name: str, wanted: pa.DataType, forms: Forms) -> pa.Array:
    try:
        return cast_text(forms.plain(pc.cast(array, pa.string()), name, wanted), wanted)
    except BadValue as bad:
        reason = f"the event time is {not_of(wanted, forms)}"
        raise BadRow(reason, column=name, value=bad.value) from None


def _changed(
    batches: Iterator[pa.RecordBatch], changes: Mapping[int, Change], bad_times: BadTimes
) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        change = partial(_change_rows, batch, changes)
        yield from halved(batch.num_rows, change, partial(bad_times.met, batch, done))
        done += batch.num_rows


def _change_rows(
    batch: pa.RecordBatch, changes: Mapping[int, Change], start: int, stop: int
) -> pa.RecordBatch:
    rows = batch.slice(start, stop - start)
    for at, change in changes.items():
        rows = rows.set_column(at, rows.schema.names[at], change(rows.column(at)))
    return rows


def _numbered(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, event_time: str, seen: Seen
) -> Iterator[pa.RecordBatch]:
    """Add event times and positions to rows; record facts about the rows in `seen`."""
    names, types, at = schema.names, schema.types, schema.names.index(event_time)
    for batch in batches:
        if batch.num_columns < len(names):
            batch = batch.append_column(event_time, pa.nulls(batch.num_rows, types[at]))
        if batch.schema.types != types or batch.schema.names != names:
            columns = [
                column if column.type == kind else pc.cast(column, kind)
                for column, kind in zip(batch.columns, types, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, names)
        positions = np.arange(seen.rows, seen.rows + batch.num_rows, dtype=np.int64)
        seen.add(batch.num_rows, batch.column(at))
        yield batch.append_column(POSITION, pa.array(positions))
