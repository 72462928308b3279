"""Rows that are set aside instead of failing their batch: their position, content and error.

A reader without a `Rejected` is strict: the first bad row of the file fails the batch.

Chunks of records that are converted at once: limited by their number and by their size.

Convert JSON values to typed batches; a bad value fails its batch or is set aside.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from odf_protocol.columns.scalar_text import scalar_text
from odf_protocol.columns.stored_values import first_misfit
from odf_protocol.errors import BadInput, NodeError

from ...slices.schema import (
    BATCH_BYTES,
    BATCH_ROWS,
    NO_VALUE,
    RAW_CHARS,
    BadRow,
    InputTooLarge,
    Limits,
)
from .forms import not_of
from .json_scan import FieldsSeen, Value, compact_json
from .json_values import (
    AS_DECLARED,
    Convert,
    JsonMisfit,
    ValueRules,
    column_of,
    converter,
    doubt_of,
)


class TooManyBadRows(BadInput):
    """More rows are bad than may be set aside; probably the whole batch has the wrong content."""


class RejectedRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One row that was set aside, in the form in which it is downloaded."""

    row: int
    """Number of the row in the batch, from 1."""
    line: int | None
    """Line on which the row begins, in formats with lines."""
    column: str | None
    value: str | None
    reason: str
    raw: str
    """The original row, or its beginning."""


class Rejected:
    """The bad rows of one batch, or of a split of it after `lines` lines; at most `most` of them.

    Rows are found to be bad when they are read, or later in the processing; either way they are
    numbered by their position in the input.
    """

    def __init__(self, most: int, *, lines: int = 0) -> None:
        self.most, self._lines = most, lines
        self._read: list[RejectedRow] = []
        self._later: list[RejectedRow] = []
        self._passed = 0

    def __len__(self) -> int:
        return len(self._read) + len(self._later)

    def passed(self, count: int) -> None:
        """Count further good rows."""
        self._passed += count

    def add(self, bad: BadRow, raw: str) -> None:
        """Record that the next row is bad. Raises `TooManyBadRows`."""
        bad = bad.moved(self._lines)
        self._check(bad)
        self._read.append(_row(self._passed + len(self._read) + 1, bad, raw))

    def add_later(self, at: int, bad: BadRow, raw: str) -> None:
        """Record a bad row that was first read as good, after `at` good rows. Raises
        `TooManyBadRows`."""
        bad = bad.moved(self._lines)
        self._check(bad)
        self._later.append(_row(self.number_of(at), bad, raw))

    def number_of(self, at: int) -> int:
        """Return the number of the row that was read as good after `at` other good rows."""
        number = at + 1
        for before in self._read:
            if before.row > number:
                break
            number += 1
        return number

    def rows(self) -> list[RejectedRow]:
        """Return all bad rows in the order of the input."""
        return sorted((*self._read, *self._later), key=lambda each: each.row)

    def follow(self, rows: Sequence[RejectedRow], before: int) -> None:
        """Add the rows of the next split, which follows `before` rows. Raises `TooManyBadRows`."""
        for each in rows:
            bad = BadRow(each.reason, line=each.line, column=each.column, value=each.value)
            self._check(bad)
            self._read.append(structs.replace(each, row=each.row + before))

    def document(self) -> bytes | None:
        """Return all rows as compressed NDJSON; None if there are none."""
        rows = self.rows()
        return gzip.compress(msgspec.json.Encoder().encode_lines(rows), mtime=0) if rows else None

    def _check(self, bad: BadRow) -> None:
        if len(self) >= self.most:
            raise TooManyBadRows(
                f"more than {self.most} rows cannot be taken, so none is; the last: {bad.message}",
                max_bad_rows=self.most,
                **bad.facts,
            )


def _row(number: int, bad: BadRow, raw: str) -> RejectedRow:
    return RejectedRow(
        row=number,
        line=bad.line,
        column=bad.column,
        value=bad.value,
        reason=bad.reason,
        raw=scalar_text(raw if len(raw) <= RAW_CHARS else raw[:RAW_CHARS] + "…"),
    )


def sifted(
    count: int,
    convert: Callable[[int, int], pa.RecordBatch],
    rejected: Rejected | None,
    raw: Callable[[int], str],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows `0…count` in batches; rows that do not `convert` are set aside.

    Raises:
        BadRow: the first row that does not convert, after the rows before it; no rows may be set
            aside.
        InputTooLarge: the first value above a limit, in the same way.
        TooManyBadRows.
    """

    def aside(at: int, bad: BadRow) -> None:
        if rejected is None:
            raise bad
        rejected.add(bad, raw(at))

    for batch in halved(count, convert, aside):
        if rejected is not None:
            rejected.passed(batch.num_rows)
        yield batch


def halved(
    count: int,
    convert: Callable[[int, int], pa.RecordBatch],
    aside: Callable[[int, BadRow], None],
) -> Iterator[pa.RecordBatch]:
    """Yield the convertible rows of `0…count`, in their order, as many at once as possible. Raises
    `InputTooLarge` after the rows before it."""
    left = [(0, count)]
    while left:
        start, stop = left.pop()
        try:
            batch = convert(start, stop)
        except (BadRow, InputTooLarge) as bad:
            middle = (start + stop) // 2
            if stop - start > 1:
                left += [(middle, stop), (start, middle)]
            elif isinstance(bad, BadRow):
                aside(start, bad)
            else:
                raise
        else:
            yield batch


def shown(batch: pa.RecordBatch, at: int) -> str:
    """Return a row of a format without text as JSON."""
    row = {name: _value(batch.column(i), at) for i, name in enumerate(batch.schema.names)}
    return msgspec.json.encode(row, enc_hook=str).decode()


def _value(column: pa.Array, at: int) -> Any:
    """Return the value; if Python cannot represent a time, return the stored number."""
    try:
        return column[at].as_py()
    except (ValueError, OverflowError):
        kind = column.type
        if pa.types.is_primitive(kind):
            return column.view(f"int{kind.bit_width}")[at].as_py()
        bad = first_misfit("", column.slice(at, 1))
        return "…" if bad is None else bad.value


T = TypeVar("T")


def chunks(
    records: Iterable[T], size_of: Callable[[T], int], *, most: int | None = None
) -> Iterator[list[T]]:
    """Yield successive records together; a chunk ends with the record that reaches a limit: `most`
    records (`BATCH_ROWS` by default), or `BATCH_BYTES`.

    Raise an error of the records only after those before it, which may have errors of their own.
    """
    limit = BATCH_ROWS if most is None else most
    chunk: list[T] = []
    size = 0
    try:
        for record in records:
            chunk.append(record)
            size += size_of(record)
            if len(chunk) >= limit or size >= BATCH_BYTES:
                yield chunk
                chunk, size = [], 0
    except NodeError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


Record = tuple[int, dict[str, Any]]
Shape = Callable[[int, Any], dict[str, Any]]
"""Converts a value to a record. Raises `BadRow`."""


def shaped(value: Value, shape: Shape) -> dict[str, Any]:
    """Return the record of a value. Raises `BadRow`."""
    try:
        return shape(value.line, value.content)
    except BadRow as bad:
        raise bad.in_record(value.number) from None


def typed_batches(
    values: Iterator[Value],
    schema: pa.Schema,
    limits: Limits,
    rejected: Rejected | None = None,
    shape: Shape = lambda _, record: record,
    *,
    how: ValueRules = AS_DECLARED,
    seen: FieldsSeen | None = None,
) -> Iterator[pa.RecordBatch]:
    """Convert values to records, and these to batches. Names of the records' fields are added to
    `seen`. Raises `BadRow`, `TooManyBadRows`."""
    convert = [converter(field.type, column=field.name, how=how) for field in schema]
    for chunk in chunks(values, attrgetter("size")):
        yield from _sifted(chunk, schema, convert, limits, rejected, shape, seen, how)


def _sifted(
    chunk: list[Value],
    schema: pa.Schema,
    convert: list[Convert],
    limits: Limits,
    rejected: Rejected | None,
    shape: Shape,
    seen: FieldsSeen | None,
    how: ValueRules,
) -> Iterator[pa.RecordBatch]:
    def batch(start: int, stop: int) -> pa.RecordBatch:
        some = chunk[start:stop]
        records = [(value.line, shaped(value, shape)) for value in some]
        try:
            made = _batch(records, schema, convert, limits, how)
        except BadRow as bad:  # of the first one, as soon as it is alone
            raise bad.in_record(some[0].number) from None
        if seen is not None:
            seen.note(record for _, record in records)
        return made

    return sifted(len(chunk), batch, rejected, lambda at: _raw(chunk[at].content))


def _raw(value: Any) -> str:
    return value.decode(errors="backslashreplace") if type(value) is bytes else compact_json(value)


def _batch(
    records: list[Record],
    schema: pa.Schema,
    convert: list[Convert],
    limits: Limits,
    how: ValueRules,
) -> pa.RecordBatch:
    columns = []
    for field, one in zip(schema, convert, strict=True):
        values = [record.get(field.name) for _, record in records]
        try:
            if field.name in how.json_texts and pa.types.is_string(field.type):
                texts = [None if each is None else compact_json(each) for each in values]
                column = pa.array(texts, field.type)
            else:
                column = column_of(values, field.type, one, how, column=field.name)
        except JsonMisfit as bad:
            raise _bad_value(records[bad.index][0], field, bad.value, how) from None
        if not field.nullable and column.null_count:
            line = records[pc.index(pc.is_null(column), True).as_py()][0]
            raise BadRow(NO_VALUE, line=line, column=field.name)
        _check_cells(records, field, column, limits)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_cells(chunk: list[Record], field: pa.Field, column: pa.Array, limits: Limits) -> None:
    if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
        sizes = pc.binary_length(column)
        longest = pc.max(sizes).as_py() or 0
        if longest > limits.cell_bytes:
            line = chunk[pc.index(sizes, longest).as_py()][0]
            limits.check_cell(longest, line=line, column=field.name)


def _bad_value(line: int, field: pa.Field, value: Any, how: ValueRules) -> BadRow:
    shown = value if isinstance(value, str) else json.dumps(value)
    reason = doubt_of(value, field.type) or not_of(
        field.type, how.forms, column=field.name, value=value
    )
    return BadRow(reason, line=line, column=field.name, value=shown)
