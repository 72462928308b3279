"""Run one iteration of a derivative dataset, with any engine of this node.

Stage the inputs, let the engine compute, write the slice and the checkpoint for the next
iteration. An engine adds only a function from staged inputs to ordered rows.

Repair corrections of which a query kept only one half.

A correction is two adjacent rows: the old row (-C), then the new row (+C). A filter may keep only
one of them. A -C alone becomes a retraction, and a +C alone becomes an append.

Turn the rows of a query into rows of a slice: its columns, their types, their order.

All engines share this module, so that equal rows of two engines give equal slices.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_digest import ArrowDigest, UnsupportedColumn, windows
from odf_protocol.columns.arrow_schema import UnsupportedSchema, from_arrow
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    OffsetInterval,
    Transform,
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
)

from ...slices.schema import MILLIS, Operation, holds_null_type, to_millis
from ...slices.write import WRITE_ROWS, write_batches
from ..port.port import ROW, EngineListener, InvalidQuery, blamed_on, said, steps_of
from .inputs import (
    BrokenInput,
    EngineInput,
    InputCheckpoint,
    UnreadableCheckpoint,
    check_aliases,
    output_watermark,
    read_checkpoint,
    staged,
    vocab_of,
    watermarks_after,
    write_checkpoint,
)

Flags = npt.NDArray[np.bool_]


def whole_corrections(
    batches: Iterator[pa.RecordBatch], operation: str, *, splits: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows; halves of corrections become retractions and appends.

    Two rows form a correction if they are adjacent and, if there is a column `ROW`, were computed
    from adjacent rows of one input. With `splits` no two rows do. The column `ROW` is removed.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        if held is not None:
            batch = pa.concat_batches([held, batch])
            held = None
        if batch.num_rows == 0:
            continue
        if batch.column(operation)[-1].as_py() == Operation.CORRECT_FROM:
            # Its other half may begin the next batch.
            held, batch = batch.slice(batch.num_rows - 1), batch.slice(0, batch.num_rows - 1)
        yield _whole(batch, operation, splits)
    if held is not None:
        yield _whole(held, operation, splits)


def _whole(batch: pa.RecordBatch, operation: str, splits: bool) -> pa.RecordBatch:
    codes = batch.column(operation).to_numpy(zero_copy_only=False)
    was, now = codes == Operation.CORRECT_FROM, codes == Operation.CORRECT_TO
    if was.any() or now.any():
        first = np.zeros_like(was) if splits else _pairs(batch, was, now)
        second = np.concatenate(([False], first[:-1]))
        codes = np.where(was & ~first, int(Operation.RETRACT), codes)
        codes = np.where(now & ~second, int(Operation.APPEND), codes)
        at = batch.schema.get_field_index(operation)
        field = batch.schema.field(at)
        batch = batch.set_column(at, field, pa.array(codes, field.type))
    return batch.drop_columns([ROW]) if ROW in batch.schema.names else batch


def _pairs(batch: pa.RecordBatch, was: Flags, now: Flags) -> Any:
    """Return a flag for each row: whether it is a -C that its +C follows."""
    follows = np.concatenate((now[1:], [False]))
    if ROW in batch.schema.names:
        rows = batch.column(ROW).to_numpy(zero_copy_only=False)
        follows &= np.concatenate((rows[1:] == rows[:-1] + 1, [False]))
    return was & follows


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


OP_DROPPED = (
    "the inputs hold retractions or corrections, but the query does not select `{}`: all rows "
    "of the result are appends"
)
OP_MISSED = (
    "{} may get retractions or corrections (or {} already), but the query does not select `{}`: "
    "rows that are taken back there would stay in the result"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The arguments of one computation. `state` is the file that the engine's state layer wrote in
    the last iteration, if any."""

    transform: Transform
    inputs: Sequence[EngineInput]
    vocab: Vocab
    system_time: Instant
    watermark: Instant | None
    """The smallest watermark of the inputs, after their new rows."""
    state: Path | None
    scratch: Path
    listener: EngineListener


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedResult:
    """Rows of a query in their final order, with the columns and types of the engine.

    `state` is called after all rows were read; it returns the state file for the next iteration.
    If `delays` is true, the query may hold rows back, and `watermark` replaces that of the work.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    state: Callable[[], Path] | None = None
    delays: bool = False
    watermark: Instant | None = None
    keeps_corrections: bool = False
    """Whether the engine has already repaired halves of corrections."""
    splits_corrections: bool = False
    """Whether it is unknown which rows form a correction, so that each is split in two rows."""


Compute = Callable[[Work], ComputedResult]


def execute(
    request: TransformRequest, compute: Compute, listener: EngineListener, *, carried: bool
) -> TransformResponse:
    """Run an iteration. An error in the query or the files gives a response, not an exception.

    With `carried`, the engine reads inputs in types that Spark has.
    """
    target = Path(request.new_data_path)
    try:
        with tempfile.TemporaryDirectory(prefix="transform-", dir=target.parent) as folder:
            return _execute(request, compute, listener, Path(folder), carried=carried)
    except (BrokenInput, UnreadableCheckpoint) as bad:
        return TransformResponseInternalError(message=bad.message)
    except BadInput as bad:  # the query, or what it makes of the rows
        return TransformResponseInvalidQuery(message=said(bad))


def _execute(
    request: TransformRequest,
    compute: Compute,
    listener: EngineListener,
    scratch: Path,
    *,
    carried: bool,
) -> TransformResponse:
    work, known = staged_work(request, listener, scratch, carried=carried)
    computed = compute(work)
    rows = _write(request, work, computed, scratch / "data")
    state = computed.state() if computed.state else None
    made = write_checkpoint(scratch / "checkpoint", InputCheckpoint(watermarks=known, state=state))
    # Rename both files only when nothing else can fail, so that no reader sees half a result.
    if made:
        (scratch / "checkpoint").replace(request.new_checkpoint_path)
    (scratch / "data").replace(request.new_data_path)
    return TransformResponseSuccess(
        new_offset_interval=_interval(request.next_offset, rows),
        new_watermark=computed.watermark if computed.delays else work.watermark,
    )


def staged_work(
    request: TransformRequest, listener: EngineListener, scratch: Path, *, carried: bool
) -> tuple[Work, Mapping[str, Instant]]:
    """Return the arguments of a computation, with its inputs as files in `scratch`, and the newest
    watermark of each input by dataset id.

    Raises:
        InvalidQuery: two inputs have the same alias.
        BrokenInput, UnreadableCheckpoint.
    """
    check_aliases(request.query_inputs)
    before = read_checkpoint(request.prev_checkpoint_path, scratch)
    known = watermarks_after(request.query_inputs, before.watermarks)
    inputs = []
    for at, given in enumerate(request.query_inputs):
        ready = staged(given, scratch / f"input-{at}.parquet", carried=carried)
        key = str(given.dataset_id)
        inputs.append(replace(ready, watermark=known.get(key)))
        listener.progress()
    work = Work(
        transform=request.transform,
        inputs=inputs,
        vocab=vocab_of(request.vocab),
        system_time=request.system_time,
        watermark=output_watermark(request.query_inputs, known),
        state=before.state,
        scratch=scratch,
        listener=listener,
    )
    return work, known


def _write(request: TransformRequest, work: Work, computed: ComputedResult, path: Path) -> int:
    steps = steps_of(work.transform)
    with blamed_on(steps, len(steps) - 1):
        plan = plan_result(computed.schema, work.vocab)
    operation = work.vocab.operation_type_column
    if not plan.has_operations and any(item.has_changes for item in work.inputs):
        work.listener.warning(OP_DROPPED.format(operation))
    elif not plan.has_operations and (names := [i.alias for i in work.inputs if i.may_change]):
        shown = ", ".join(f"`{name}`" for name in names)
        has = "has them" if len(names) == 1 else "have them"
        work.listener.warning(OP_MISSED.format(shown, has, operation))
    batches = shaped(computed.batches, plan)
    if not computed.keeps_corrections:
        batches = whole_corrections(batches, operation, splits=computed.splits_corrections)
    return write_result(
        batches,
        plan,
        path,
        next_offset=request.next_offset,
        system_time=request.system_time,
    )


def _interval(start: int, rows: int) -> OffsetInterval | None:
    return OffsetInterval(start=start, end=start + rows - 1) if rows else None
