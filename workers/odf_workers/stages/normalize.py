"""From a frame to rows that can be merged: storable values, event time, clashing names, positions.

A value that a dataset must not store is a bad row, whatever the format. Top-level times become
milliseconds UTC. Each row has an event time column; its position in the input makes every later
order total.

Rows that were read well and must not be stored: the first one fails the batch, or all are set
aside, with their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.column_names import name_remarks
from odf_protocol.columns.stored_values import NAIVE, first_misfit, may_misfit
from odf_protocol.instant import Instant
from odf_protocol.sources.source_rules import FINER_UNITS

from ..readers.values.forms import PLAIN, Forms, not_of
from ..readers.values.recast import FINER, Losses, is_naive, recast
from ..readers.values.rejected import Rejected, halved, shown
from ..readers.values.text import BadValue, cast_text
from ..slices.schema import (
    MILLIS,
    POSITION,
    BadInputSchema,
    BadRow,
    Frame,
    check_input,
    holds_null_type,
    is_finer,
    is_text,
    same_type,
    to_millis,
)
from .facts import NONE_AHEAD, Ahead


class BadRows:
    """Takes the bad rows in the order of the input, which has `before` rows before these.

    Readers do not number lines while they read many rows at once. Only if a row is bad, `lines`
    reads the input again.
    """

    def __init__(self, frame: Frame, rejected: Rejected | None, *, before: int) -> None:
        self._lines, self._rejected, self._before = frame.lines, rejected, before
        self._is_document = frame.is_document
        self._passed = 0

    def met(self, batch: pa.RecordBatch, done: int, at: int, bad: BadRow) -> None:
        """Handle the row `at` of a batch, before which `done` good rows were read. Raises `BadRow`,
        `TooManyBadRows`."""
        if self._rejected is None:
            number = done + at + 1
            line = self._line(number)
            raise bad.in_row(self._before + number) if line is None else self._of(bad, line, number)
        bad = bad.at(self._line(self._rejected.number_of(done + at)))
        self._rejected.add_later(done + at, bad, shown(batch, at))

    def _of(self, bad: BadRow, line: int, number: int) -> BadRow:
        return bad.at(line).in_record(number if self._is_document else None)

    def _line(self, number: int) -> int | None:
        """Return the line of the row with this number, which is higher than those before."""
        line = next(islice(self._lines, number - self._passed - 1, None), None)
        self._passed = number
        return line


Change = Callable[[pa.Array], pa.Array]
DAY_MS = 86_400_000
NULLS_ARE_TEXT = (
    "column `{}` holds nulls only, and is stored as text: declare a schema for another type"
)
JSON_TEXT = (
    "column `{}` has lists or objects without a value, and is stored as JSON in a text: declare a "
    "schema for another type"
)
OUT_OF_RANGE = (
    "the event time is outside of the years 1 to 9999; where a source declares no time, whole "
    "numbers are seconds since 1970"
)


@dataclass(slots=True)
class SeenValues:
    """Facts about the rows that have passed."""

    bound: Instant | None = None
    """Rows with a later event time are counted in `ahead`."""
    rows: int = 0
    nulls: int = 0
    ahead: Ahead = NONE_AHEAD
    ascending: bool = True
    first: int | None = None
    latest: int | None = None
    """`first` and `latest` event times, in the unit of their column."""

    def add(self, rows: int, times: pa.Array) -> None:
        self.rows += rows
        self.nulls += times.null_count
        if self.bound is not None and times.null_count < len(times):
            self.ahead += _ahead_of(_counts(times), times.type, self.bound)
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
    seen: SeenValues
    """Complete when all batches are consumed, like the remarks."""
    remarks: dict[str, None] = field(default_factory=dict)
    """What the publisher should know about the form in which the rows are stored; in order."""


def normalized(
    frame: Frame,
    *,
    vocab: Vocab,
    coerces: bool,
    takes_operations: bool,
    known: pa.Schema | None = None,
    rejected: Rejected | None = None,
    forms: Forms = PLAIN,
    before: int = 0,
    nulls_are_text: bool = False,
    latest: Instant | None = None,
) -> Normalized:
    """Convert the frame's rows to the form in which they are merged. `known` is the dataset's
    schema, if it has one; `forms` are the formats of undeclared event times; the input has `before`
    rows before these. Rows that must not be stored are added to `rejected`, if the frame also sets
    bad rows aside there. Such errors have the line of their row, or its number if the format has no
    lines. With `nulls_are_text`, a column of nulls that the dataset does not know is one of texts.
    Rows with an event time after `latest` are counted.

    Raises:
        BadInputSchema: system columns in the batch, or an event time that is none.
        BadRow, InputTooLarge: what the frame raises while it is read.
    """
    names = list(frame.schema.names)
    if coerces:
        names = renamed(names, vocab, takes_operations=takes_operations)
    _check_distinct(names)
    changes: dict[int, Change] = {}
    watched: dict[int, str] = {}
    remarks = {} if known is not None else dict.fromkeys(name_remarks([*vocab.columns, *names]))
    losses = Losses(remarks.setdefault)
    fields = []
    for at, (given, name) in enumerate(zip(frame.schema, names, strict=True)):
        field = _typed(given.with_name(name), vocab, known)
        kind = field.type
        if nulls_are_text and holds_null_type(kind):
            field = field.with_type(pa.string())
            remarks[(JSON_TEXT if pa.types.is_nested(kind) else NULLS_ARE_TEXT).format(name)] = None
        is_event_time = field.name == vocab.event_time_column
        wanted, change = _change(field, coerces and is_event_time, known, forms, losses)
        if pa.types.is_nested(kind) and pa.types.is_string(field.type):
            change = _as_json
        fields.append(wanted)
        if change is not None or may_misfit(field.type):
            changes[at] = partial(_storable, field.name, change)
        if is_naive(field.type):
            remarks[f"column `{name}` has {NAIVE}"] = None
        if pa.types.is_timestamp(field.type) and field.type.unit in FINER_UNITS:
            watched[at] = f"column `{name}` has {FINER.format('milliseconds')}"
    schema = pa.schema(fields)
    check_input(schema, vocab, takes_operations=takes_operations)
    if vocab.event_time_column not in names:
        schema = schema.append(pa.field(vocab.event_time_column, _event_time(vocab, known)))
    batches = _watched(frame.batches, watched, remarks) if watched else frame.batches
    if changes:
        batches = _changed(batches, changes, BadRows(frame, rejected, before=before))
    seen = SeenValues(bound=latest)
    numbered = _numbered(batches, schema, vocab.event_time_column, seen)
    return Normalized(schema, numbered, seen, remarks)


def _watched(
    batches: Iterator[pa.RecordBatch], watched: Mapping[int, str], remarks: dict[str, None]
) -> Iterator[pa.RecordBatch]:
    """Pass on the rows; remark on columns whose times have more digits than are stored."""
    left = dict(watched)
    for batch in batches:
        for at, remark in list(left.items()):
            if is_finer(batch.column(at)):
                remarks[remark] = None
                del left[at]
        yield batch


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
    field: pa.Field, coerces: bool, known: pa.Schema | None, forms: Forms, losses: Losses
) -> tuple[pa.Field, Change | None]:
    """Return a column's new field, and its conversion. `coerces` means an undeclared event time."""
    kind = field.type
    if coerces and pa.types.is_integer(kind):
        return field.with_type(MILLIS), partial(_from_seconds, field.name)
    stored = _stored_as(field.name, known)
    if coerces and is_text(kind):
        wanted = stored or MILLIS
        change = partial(_from_text, name=field.name, wanted=wanted, forms=forms, losses=losses)
        return field.with_type(wanted), change
    if coerces and pa.types.is_date(kind) and stored == MILLIS:
        return field.with_type(MILLIS), lambda array: pc.cast(array, MILLIS)
    if pa.types.is_timestamp(kind) and kind != MILLIS:
        return field.with_type(MILLIS), to_millis
    return field, None


def _storable(name: str, change: Change | None, given: pa.Array) -> pa.Array:
    """Convert values to the stored form. Raises `BadRow` for a value that must not be stored, in
    either form: a conversion may overflow, and numbers may be times."""
    _check(name, given)
    if change is None:
        return given
    made = change(given)
    _check(name, made, given)
    return made


def _check(name: str, values: pa.Array, given: pa.Array | None = None) -> None:
    bad = first_misfit(name, values)
    if bad is None:
        return
    if given is not None and pa.types.is_integer(given.type):
        raise BadRow(OUT_OF_RANGE, column=name, value=given[bad.row].as_py())
    raise BadRow(bad.reason, column=bad.column, value=bad.value)


def _counts(times: pa.Array) -> npt.NDArray[Any]:
    """Return the times that are not null as numbers of their unit; at least one is not."""
    known = times.drop_null() if times.null_count else times
    return np.asarray(known.view(f"int{known.type.bit_width}"))


def _ahead_of(counts: npt.NDArray[Any], kind: pa.DataType, bound: Instant) -> Ahead:
    """Return how many of the days or times are after the bound."""
    unit_ms = DAY_MS if pa.types.is_date32(kind) else 1
    if counts.max() <= bound.millis // unit_ms:
        return NONE_AHEAD
    above = counts[counts > bound.millis // unit_ms]
    return Ahead(len(above), Instant.from_millis(int(above.max()) * unit_ms))


def _as_json(array: pa.Array) -> pa.Array:
    return recast(array, pa.string())


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


def _from_text(
    array: pa.Array, name: str, wanted: pa.DataType, forms: Forms, losses: Losses
) -> pa.Array:
    try:
        texts = forms.plain(pc.cast(array, pa.string()), name, wanted)
        made = cast_text(texts, wanted)
    except BadValue as bad:
        reason = f"the event time is {not_of(wanted, forms)}"
        raise BadRow(reason, column=name, value=bad.value) from None
    losses.met(name, texts, wanted)
    return made


def _changed(
    batches: Iterator[pa.RecordBatch], changes: Mapping[int, Change], bad_rows: BadRows
) -> Iterator[pa.RecordBatch]:
    done = 0
    for batch in batches:
        change = partial(_change_rows, batch, changes)
        yield from halved(batch.num_rows, change, partial(bad_rows.met, batch, done))
        done += batch.num_rows


def _change_rows(
    batch: pa.RecordBatch, changes: Mapping[int, Change], start: int, stop: int
) -> pa.RecordBatch:
    rows = batch.slice(start, stop - start)
    for at, change in changes.items():
        rows = rows.set_column(at, rows.schema.names[at], change(rows.column(at)))
    return rows


def _numbered(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, event_time: str, seen: SeenValues
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
