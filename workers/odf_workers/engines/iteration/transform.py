"""Run one iteration of a derivative dataset, with any engine of this node.

Stage the inputs, let the engine compute, write the slice and the checkpoint for the next
iteration. An engine adds only a function from staged inputs to ordered rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.data import OffsetInterval
from odf_protocol.metadata.engine import (
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseSuccess,
)
from odf_protocol.metadata.transforms import Transform

from ..port.port import Listener, steps_of
from ..port.positions import blamed_on, said
from .changelog import whole_corrections
from .checkpoint import (
    Checkpoint,
    UnreadableCheckpoint,
    output_watermark,
    read_checkpoint,
    watermarks_after,
    write_checkpoint,
)
from .inputs import BrokenInput, EngineInput, check_aliases, staged, vocab_of
from .result import plan_result, shaped, write_result

OP_DROPPED = (
    "the inputs hold retractions or corrections, but the query does not select `{}`: all rows "
    "of the result are appends"
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
    listener: Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
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


Compute = Callable[[Work], Computed]


def execute(
    request: TransformRequest, compute: Compute, listener: Listener, *, carried: bool
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
    request: TransformRequest, compute: Compute, listener: Listener, scratch: Path, *, carried: bool
) -> TransformResponse:
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
    computed = compute(work)
    rows = _write(request, work, computed, scratch / "data")
    state = computed.state() if computed.state else None
    made = write_checkpoint(scratch / "checkpoint", Checkpoint(watermarks=known, state=state))
    # Rename both files only when nothing else can fail, so that no reader sees half a result.
    if made:
        (scratch / "checkpoint").replace(request.new_checkpoint_path)
    (scratch / "data").replace(request.new_data_path)
    return TransformResponseSuccess(
        new_offset_interval=_interval(request.next_offset, rows),
        new_watermark=computed.watermark if computed.delays else work.watermark,
    )


def _write(request: TransformRequest, work: Work, computed: Computed, path: Path) -> int:
    steps = steps_of(work.transform)
    with blamed_on(steps, len(steps) - 1):
        plan = plan_result(computed.schema, work.vocab)
    operation = work.vocab.operation_type_column
    if not plan.has_operations and any(item.has_changes for item in work.inputs):
        work.listener.warning(OP_DROPPED.format(operation))
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
