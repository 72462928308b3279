"""The schema of a slice: system columns, then the batch's, checked against the dataset's schema.

Names and types must be those of the dataset; nothing is widened, and the order is the dataset's. A
column that the dataset requires may be optional in the batch: the writer checks for nulls.

The result of a reader: a schema and batches of rows, read lazily, strictly, in limited memory.

One bad record fails the whole batch, unless the publisher asked to set bad records aside
(`rejected.py`). The error has the record's position and the reason.

Times in the form of slices: in milliseconds UTC, and an event time in every row.

Common parts of merges and writers: operation codes, system columns, the input position.

Rows keep their position in the input through every merge, which makes every order total.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_digest import UnsupportedColumn, beginnings
from odf_protocol.columns.scalar_text import scalar_text
from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.instant import Instant
from odf_protocol.sources.source_rules import AS_TEXT

from ..runtime.command import PrepareLimits

BATCH_ROWS = 10_000
"""Limit of the records that a reader converts at once."""
BATCH_BYTES = 4 << 20
"""Limit of the text of these records, exceeded by less than a record; objects take several times as
much memory."""
INFER_ROWS = 1_000
"""Number of records that are read to infer a schema."""
SHOWN_CHARS = 120
"""Limit of the characters of a value in an error."""
RAW_CHARS = 2_000
"""Limit of the characters of a row that is set aside."""


class BadInputSchema(BadInput):
    """The columns of the batch cannot become rows of the dataset."""


class BadRow(BadInput):
    """A record cannot be read. Facts, as far as known: line (from 1), column, value."""

    def __init__(
        self,
        reason: str,
        *,
        line: int | None = None,
        record: int | None = None,
        column: str | None = None,
        value: object = None,
    ) -> None:
        """`record` is the number of a record, from 1, in a format in which a line may have many."""
        column = None if column is None else scalar_text(column)
        where = [f"line {line}"] if line is not None else []
        where += [f"record {record}"] if record is not None else []
        where += [f"column `{column}`"] if column is not None else []
        shown = shorten(value) if value is not None else None
        message = f"{', '.join(where) or 'input'}: {reason}"
        if shown is not None:
            message += f": {shown!r}"
        super().__init__(message, line=line, column=column, value=shown)
        self.reason, self.line, self.column, self.value = reason, line, column, shown
        self.record = record

    def moved(self, lines: int) -> BadRow:
        """Return the same error for a part of the input, adding the number of lines before that
        part."""
        if self.line is None or not lines:
            return self
        return self.at(self.line + lines)

    def in_row(self, number: int) -> BadRow:
        """Return the same error with the number of its record, from 1, in a format without
        lines."""
        reason = f"row {number}: {self.reason}"
        return BadRow(reason, column=self.column, value=self.value)

    def at(self, line: int | None) -> BadRow:
        """Return the same error with the line of its record."""
        return self._with(line, self.record)

    def in_record(self, number: int | None) -> BadRow:
        """Return the same error with the number of its record, if it has none."""
        return self if number is None or self.record else self._with(self.line, number)

    def _with(self, line: int | None, record: int | None) -> BadRow:
        return BadRow(self.reason, line=line, record=record, column=self.column, value=self.value)


class InputTooLarge(LimitExceeded):
    """A part of the input is larger than this node accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits: columns of a batch, bytes of a value and of a record, and the output of archives."""

    columns: int = 2_000
    cell_bytes: int = 16 << 20
    row_bytes: int = 32 << 20
    archives: PrepareLimits = field(default_factory=PrepareLimits)

    def check_columns(self, count: int) -> None:
        if count > self.columns:
            raise InputTooLarge(
                f"the batch has {count} columns, at most {self.columns} are accepted",
                limit="columns",
                value=self.columns,
            )

    def check_cell(self, size: int, *, line: int, column: str) -> None:
        if size > self.cell_bytes:
            raise InputTooLarge(
                f"line {line}, column `{column}`: the value is longer than {self.cell_bytes} bytes",
                limit="cell_bytes",
                value=self.cell_bytes,
                setting="ODF_WORKER_MAX_ROW_BYTES",
            )

    def row_too_large(self, line: int) -> InputTooLarge:
        return InputTooLarge(
            f"line {line}: the record is longer than {self.row_bytes} bytes",
            limit="row_bytes",
            value=self.row_bytes,
            setting="ODF_WORKER_MAX_ROW_BYTES",
        )


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows that are still to be read. `batches` can be consumed once, and raises errors
    meanwhile."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    warnings: list[str] = field(default_factory=list)
    """Warnings for the publisher; complete when all batches are consumed."""
    names: Any = None
    """Field names of the records, if the format allows any; complete when all batches are
    consumed."""
    lines: Iterator[int] = field(default_factory=lambda: iter(()))
    """The lines on which records begin, bad records included, if the format has lines. To consume
    them reads the input again."""
    is_document: bool = False
    """Whether a line may have many records, so that errors name the record, too."""
    left_out: frozenset[str] = frozenset()
    """Columns of a file that no column of the schema takes; known from its beginning."""
    cut: dict[str, str] = field(default_factory=dict)
    """Columns of whole numbers in which a fraction was cut off, with the first such value; complete
    when all batches are consumed."""

    @classmethod
    def empty(cls, schema: pa.Schema) -> Frame:
        return cls(schema, iter(()))

    def table(self) -> pa.Table:
        """Read all rows at once; for small inputs and tests."""
        return pa.Table.from_batches(self.batches, self.schema)


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the same columns, all optional."""
    return pa.schema([field.with_nullable(True) for field in schema])


def check_names(names: Iterable[str], limits: Limits) -> None:
    """Check that column names differ and are not too many."""
    listed = list(names)
    limits.check_columns(len(listed))
    seen: set[str] = set()
    for name in listed:
        if name in seen:
            raise BadInputSchema(f"column `{name}` occurs more than once", column=name)
        seen.add(name)


def shorten(value: object) -> str:
    text = scalar_text(str(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


NO_VALUE = "no value in a required column; its type has to be an Option if rows may lack values"
MILLIS = pa.timestamp("ms", "UTC")
SHOWN_NAMES = 10
"""Limit of the columns that an error names."""


def shown_names(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{shorten(name)}`" for name in names[:SHOWN_NAMES])
    return f"{shown}{', …' if names[SHOWN_NAMES:] else ''}"


class IncompatibleSchema(BadInputSchema):
    """The batch's columns differ from the dataset's."""


def check_input(schema: pa.Schema, vocab: Vocab, *, takes_operations: bool) -> None:
    """Check that the batch has no columns that the node adds. Raises `BadInputSchema`."""
    if len(set(vocab.columns)) < len(vocab.columns):
        raise BadInputSchema(
            f"the vocabulary gives two system columns one name: {', '.join(vocab.columns)}"
        )
    reserved = [vocab.offset_column, vocab.system_time_column]
    if not takes_operations:
        reserved.append(vocab.operation_type_column)
    for name in reserved:
        if name in schema.names:
            raise BadInputSchema(
                f"column `{name}` is written by the node and may not be in the batch", column=name
            )
    if vocab.event_time_column in schema.names:
        found = schema.field(vocab.event_time_column).type
        if not (pa.types.is_timestamp(found) or pa.types.is_date(found)):
            raise BadInputSchema(
                f"event time column `{vocab.event_time_column}` must be a date or a timestamp, "
                f"not {found}",
                column=vocab.event_time_column,
                type=str(found),
            )


def slice_schema(batch: pa.Schema, vocab: Vocab, dataset: pa.Schema | None) -> pa.Schema:
    """Return the columns of the slice that is written for a batch with these columns.

    Raises:
        IncompatibleSchema: the dataset has a schema, and this one differs.
        BadInputSchema: a first batch has a column of nulls only, so that its type is unknown.
    """
    system = set(vocab.columns)
    event_time = batch.field(vocab.event_time_column)
    fields = [
        pa.field(vocab.offset_column, pa.int64(), nullable=False),
        pa.field(vocab.operation_type_column, pa.int32(), nullable=False),
        pa.field(vocab.system_time_column, MILLIS, nullable=False),
        event_time.with_nullable(False),
        *[field for field in batch if field.name not in system],
    ]
    if dataset is None:
        for field in fields:
            check_known(field, "declare a schema in the source")
        return pa.schema(fields)
    _check_same(fields, dataset)
    return dataset


def lacking(
    batch: pa.Schema, vocab: Vocab, dataset: pa.Schema | None, *, named: Iterable[str] = ()
) -> list[pa.Field]:
    """Return the optional columns of the dataset that a batch lacks, and that may be null in it:
    those that the merge strategy has `named` may not."""
    kept = {*vocab.columns, *batch.names, *named}
    return [field for field in dataset or () if field.nullable and field.name not in kept]


def check_known(field: pa.Field, advice: str) -> None:
    """Check that a new column can be stored. `advice` is what to do about a column without values.
    Raises `BadInputSchema`."""
    if holds_null_type(field.type):
        raise BadInputSchema(
            f"column `{field.name}` holds {_unseen(field.type)} only, its type is unknown: "
            f"{advice}",
            column=field.name,
        )
    try:
        beginnings(pa.schema([field]))
    except UnsupportedColumn:
        raise BadInputSchema(
            f"column `{field.name}` is {field.type}, for which there is no logical hash: {AS_TEXT}",
            column=field.name,
            type=str(field.type),
        ) from None


def _unseen(kind: pa.DataType) -> str:
    return "nulls" if pa.types.is_null(kind) else "nulls or empty objects"


def holds_null_type(kind: pa.DataType) -> bool:
    """Whether a part of the values has no type: only nulls were seen, or objects without
    members."""
    if pa.types.is_nested(kind):
        return kind.num_fields == 0 or any(
            holds_null_type(kind.field(at).type) for at in range(kind.num_fields)
        )
    return bool(pa.types.is_null(kind))


def _difference(surplus: list[str], missing: list[str]) -> str:
    def told(what: str, names: list[str]) -> list[str]:
        return [f"{what}: {shown_names(names)}"] if names else []

    return "; ".join([*told("new", surplus), *told("missing", missing)])


def _check_same(fields: list[pa.Field], dataset: pa.Schema) -> None:
    found, wanted = {field.name: field for field in fields}, list(dataset.names)
    if found.keys() != set(wanted):
        surplus = [name for name in found if name not in wanted]
        missing = [name for name in wanted if name not in found]
        raise IncompatibleSchema(
            f"the batch has other columns than the dataset ({_difference(surplus, missing)}): "
            "declare those of the dataset in the source, or add to them with "
            "SetDataSchema or addColumns",
            unknown=surplus,
            missing=missing,
            expected=wanted,
        )
    for expected in list(dataset)[4:]:
        given = found[expected.name]
        if not same_type(given.type, expected.type):
            raise IncompatibleSchema(
                f"column `{given.name}` is {given.type} in the batch and {expected.type} in the "
                "dataset",
                column=given.name,
            )
    event_time = dataset.field(3).type
    if pa.types.is_date(fields[3].type) != pa.types.is_date(event_time):
        raise IncompatibleSchema(
            f"event time is {fields[3].type} in the batch and {event_time} in the dataset",
            column=fields[3].name,
        )


def same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether types are equal up to layout. A type of nulls alone fits any type; required nested
    parts are checked by value."""
    if pa.types.is_null(found):
        return True
    for one_kind in (is_text, _is_bytes):
        if one_kind(wanted):
            return one_kind(found)
    if _is_list(wanted):
        return _is_list(found) and same_type(found.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(found)
            and same_type(found.key_type, wanted.key_type)
            and same_type(found.item_type, wanted.item_type)
        )
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(found) and _same_members(found, wanted)
    return bool(found == wanted)


def _same_members(found: pa.DataType, wanted: pa.DataType) -> bool:
    ours = [found.field(at) for at in range(found.num_fields)]
    theirs = [wanted.field(at) for at in range(wanted.num_fields)]
    return [f.name for f in ours] == [f.name for f in theirs] and all(
        same_type(one.type, other.type) for one, other in zip(ours, theirs, strict=True)
    )


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind)
    )


def to_millis(array: pa.Array) -> pa.Array:
    """Convert a timestamp of any unit and zone to milliseconds UTC, cutting the rest; without a
    zone it is UTC."""
    kind = array.type
    counts = pc.cast(array, pa.timestamp(kind.unit)) if kind.tz is None else array
    utc = pc.cast(pc.cast(counts, pa.int64()), pa.timestamp(kind.unit, "UTC"))
    if kind.unit in ("us", "ns"):
        utc = pc.floor_temporal(utc, unit="millisecond")
    try:
        return pc.cast(utc, MILLIS)
    except pa.ArrowInvalid as bad:
        raise BadRow(f"a time is out of range ({bad})") from None


def is_finer(array: pa.Array) -> bool:
    """Whether a time has digits beyond its milliseconds."""
    per_milli = {"us": 1_000, "ns": 1_000_000}.get(array.type.unit, 1)
    counts = array.view(pa.int64())
    kept = pc.multiply(pc.divide(counts, per_milli), per_milli)
    return pc.any(pc.not_equal(kept, counts)).as_py() is True


def filled(times: pa.Array | pa.ChunkedArray, fallback: Instant) -> pa.Array | pa.ChunkedArray:
    """Replace missing times or days by the fallback."""
    if not times.null_count:
        return times
    value = pa.scalar(fallback.millis, MILLIS).cast(times.type, safe=False)
    return times.fill_null(value)


POSITION = "odf position"


class Operation(IntEnum):
    """The operation of a row in the ledger."""

    APPEND = 0
    RETRACT = 1
    CORRECT_FROM = 2
    CORRECT_TO = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """Input of every merge strategy: names of the system columns, key and compared columns."""

    vocab: Vocab
    key: tuple[str, ...] = ()
    compare: tuple[str, ...] | None = None
    source_event_time: Instant | None = None
    """Event time that rows without one receive when they are written. None: the writer knows."""

    @property
    def op(self) -> str:
        return self.vocab.operation_type_column

    def compared(self, columns: Sequence[str]) -> list[str]:
        """Return the columns whose change counts: the requested ones, else all data outside the
        key."""
        system = {POSITION, self.vocab.offset_column, self.op, self.vocab.system_time_column}
        wanted = columns if self.compare is None else self.compare
        return [name for name in wanted if name not in system and name not in self.key]


def check_columns(columns: Sequence[str], needed: Sequence[str], what: str) -> None:
    """Raise `CannotMerge` if the list is empty or names a column that the batch lacks."""
    if not needed:
        raise BadInput("CannotMerge", f"the merge strategy names no {what} columns")
    for name in needed:
        if name not in columns:
            raise BadInput("CannotMerge", f"the batch has no {what} column `{name}`", column=name)
