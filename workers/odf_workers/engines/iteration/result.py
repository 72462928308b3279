"""Turn the rows of a query into rows of a slice: its columns, their types, their order.

All engines share this module, so that equal rows of two engines give equal slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.arrow_digest import ArrowDigest, UnsupportedColumn, windows
from odf_protocol.arrow_schema import UnsupportedSchema, from_arrow
from odf_protocol.chain.state import Vocab
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant

from ...slices.columns import Operation
from ...slices.millis import to_millis
from ...slices.schema import MILLIS, holds_null_type
from ...slices.write import WRITE_ROWS, write_batches
from ..port.port import ROW, InvalidQuery

_OPERATIONS = frozenset(int(code) for code in Operation)
_PLAIN = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPlan:
    """How the columns of a query become columns of a slice. `schema` is that of the slice."""

    schema: pa.Schema
    vocab: Vocab
    has_operations: bool

    @property
    def data(self) -> list[pa.Field]:
        """The columns that the query computes, event time first, without the operation."""
        return list(self.schema)[3:]


def plan_result(found: pa.Schema, vocab: Vocab) -> ResultPlan:
    """Check the columns of a query and plan the slice. Raise `InvalidQuery`."""
    names = [name for name in found.names if name != ROW]
    for name in names:
        if names.count(name) > 1:
            raise InvalidQuery(f"the result has two columns named `{name}`")
    for name in (vocab.offset_column, vocab.system_time_column):
        if name in names:
            raise InvalidQuery(f"the result may not have a column `{name}`: it is written for you")
    _check_event_time(found, vocab.event_time_column)
    has_operations = vocab.operation_type_column in names
    if has_operations:
        _check_operation(found.field(vocab.operation_type_column))
    system = set(vocab.columns) | {ROW}
    schema = pa.schema(
        [
            pa.field(vocab.offset_column, pa.int64(), nullable=False),
            pa.field(vocab.operation_type_column, pa.int32(), nullable=False),
            pa.field(vocab.system_time_column, MILLIS, nullable=False),
            _field(found.field(vocab.event_time_column)).with_nullable(False),
            *[_field(field) for field in found if field.name not in system],
        ]
    )
    _check_storable(schema)
    return ResultPlan(schema=schema, vocab=vocab, has_operations=has_operations)


def write_result(
    batches: Iterator[pa.RecordBatch],
    plan: ResultPlan,
    path: Path,
    *,
    next_offset: int,
    system_time: Instant,
) -> int:
    """Write the slice, even without rows, and return the number of rows.

    `batches` have the columns of the plan and are in their final order.

    Raises:
        InvalidQuery: a value is not allowed in a slice.
    """
    return write_batches(_complete(batches, plan, next_offset, system_time), plan.schema, path)


def shaped(batches: Iterator[pa.RecordBatch], plan: ResultPlan) -> Iterator[pa.RecordBatch]:
    """Yield operations, event time and data in the types of the slice, and `ROW` if present.

    Raises:
        InvalidQuery: a value is not allowed in a slice.
    """
    vocab = plan.vocab
    for batch in batches:
        count = batch.num_rows
        names, columns = [vocab.operation_type_column], []
        if plan.has_operations:
            columns.append(_operations(batch.column(vocab.operation_type_column)))
        else:
            columns.append(pa.repeat(pa.scalar(0, pa.int32()), count))
        for field in plan.data:
            names.append(field.name)
            columns.append(_values(batch.column(field.name), field))
        if ROW in batch.schema.names:
            names.append(ROW)
            columns.append(batch.column(ROW))
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _complete(
    batches: Iterator[pa.RecordBatch], plan: ResultPlan, offset: int, system_time: Instant
) -> Iterator[pa.RecordBatch]:
    when = pa.scalar(system_time.millis, MILLIS)
    for batch in windows(batches, WRITE_ROWS):
        count = batch.num_rows
        if count == 0:
            continue
        columns = [
            pa.array(np.arange(offset, offset + count, dtype=np.int64)),
            batch.column(plan.vocab.operation_type_column),
            pa.repeat(when, count),
            *[batch.column(field.name) for field in plan.data],
        ]
        offset += count
        yield pa.RecordBatch.from_arrays(columns, schema=plan.schema)


def _check_event_time(found: pa.Schema, name: str) -> None:
    if name not in found.names:
        raise InvalidQuery(f"the result has no event time: select a column `{name}`")
    kind = found.field(name).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidQuery(f"event time `{name}` must be a date or a timestamp, not {kind}")


def _check_operation(field: pa.Field) -> None:
    if not pa.types.is_integer(field.type):
        raise InvalidQuery(f"operation `{field.name}` must be an integer, not {field.type}")


def _field(field: pa.Field) -> pa.Field:
    """Return the field as it is stored. It is nullable even if an optimizer proved otherwise."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind):
        kind = MILLIS
    elif holds_null_type(kind):
        raise InvalidQuery(f"column `{field.name}` is always null: cast it to a type")
    return pa.field(field.name, _PLAIN.get(kind, kind))


def _check_storable(schema: pa.Schema) -> None:
    try:
        from_arrow(schema)
        ArrowDigest(schema)
    except (UnsupportedSchema, UnsupportedColumn) as bad:
        raise InvalidQuery(f"the result cannot be stored: {bad.message}") from None


def _operations(column: pa.Array) -> pa.Array:
    if column.null_count:
        raise InvalidQuery("the operation of a row is null")
    for code in pc.unique(column).to_pylist():
        if code not in _OPERATIONS:
            raise InvalidQuery(f"there is no operation {code}")
    return pc.cast(column, pa.int32())


def _values(column: pa.Array, field: pa.Field) -> pa.Array:
    if not field.nullable and column.null_count:
        raise InvalidQuery(f"event time `{field.name}` is null in {column.null_count} rows")
    if column.type == field.type:
        return column
    try:
        if pa.types.is_timestamp(field.type):
            return to_millis(column)
        return pc.cast(column, field.type)
    except pa.ArrowInvalid as bad:
        raise InvalidQuery(f"column `{field.name}`: {bad}") from None
    except BadInput as bad:
        raise InvalidQuery(f"column `{field.name}`: {bad.message}") from None
