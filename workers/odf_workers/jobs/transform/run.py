"""Transform jobs: plan, execute, put, commit, until all inputs are consumed.

Nothing is visible before the commit, which moves the head once for schema and data together. The
chain itself records what was consumed, so a repeated job continues where it was interrupted. A
worker that loses the race for the head plans again.

Anew: a derivative of a rewritten input keeps its definition and is computed from the beginning.
Its old rows stay until the new ones are whole, and then one move of the head replaces them.

Receipts of transforms: of one iteration, of several, of blocks from an earlier attempt.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import DataSlice, ExecuteTransform, HashedBlock, MetadataEvent
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import chunks
from odf_storage.datasets.job_payloads.ingest_job import slice_receipt
from odf_storage.datasets.job_payloads.transform_job import TransformPayload, TransformReceipt
from odf_storage.datasets.node.rights import refuse_cycle, refuse_hidden_inputs
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compaction import rewritten, swap, without_data
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ...engines.port.port import Engine, engine_for
from ...plan.transform import (
    IterationLimits,
    ResetFirst,
    TransformPlan,
    UpToDate,
    plan_transform,
    require_transform,
)
from ...slices.schema import Operation
from ..work.context import TransformOptions, WorkerContext
from .chains import backwards, input_chains, input_datasets, noted_as_computed
from .iteration import Executed, checkpoint_file, execute
from .result import CACHE, InputFiles, work_folder

Operations = Callable[[DataSlice], Counter[int]]
"""Returns the number of rows of a slice for each operation."""
_COUNTS = ("rows_read", "rows_added", "rows_retracted", "rows_corrected", "rows_late", "iterations")
_LATEST = ("watermark", "physical_hash", "logical_hash", "size", "offset_end")
_ENGINE = ("engine", "engine_version")


def up_to_date(head: Multihash | None, reason: str | None) -> TransformReceipt:
    """Return the receipt of a job that wrote nothing."""
    return TransformReceipt(
        outcome="up-to-date", prev_head=str(head), head=str(head), reason=reason
    )


def operations_in(file: Any, column: str) -> Counter[int]:
    """Count the operations in a Parquet file, given by its path or opened."""
    counted = pc.value_counts(pq.read_table(file, columns=[column])[column])
    return Counter({each["values"]: each["counts"] for each in counted.to_pylist()})


def operations_of(dataset: Dataset) -> Operations:
    """Return a function that counts the operations in a stored slice of the dataset."""
    column = dataset.state().vocab.operation_type_column

    def count(part: DataSlice) -> Counter[int]:
        with dataset.open_object(ObjectKind.DATA, part.physical_hash) as stream:
            return operations_in(stream, column)

    return count


def of_iteration(
    plan: TransformPlan, blocks: Sequence[HashedBlock], engine: Engine, operations: Operations
) -> TransformReceipt:
    """Return the receipt of one committed iteration."""
    known = of_blocks(blocks, operations) or up_to_date(plan.head, None)
    read = sum(
        interval.count for item in plan.inputs if (interval := item.offset_interval) is not None
    )
    return replace(
        known,
        rows_read=read,
        has_more=plan.has_more,
        engine=engine.name,
        engine_version=engine.version,
    )


def of_blocks(blocks: Sequence[HashedBlock], operations: Operations) -> TransformReceipt | None:
    """Make a receipt of blocks whose original receipt was lost; the number of read rows is
    unknown."""
    if not blocks:
        return None
    events = [block.event for block in blocks if isinstance(block.event, ExecuteTransform)]
    slices = [event.new_data for event in events if event.new_data is not None]
    last = slices[-1] if slices else None
    watermark = events[-1].new_watermark if events else None
    rows = sum((operations(part) for part in slices), Counter[int]())
    return TransformReceipt(
        outcome="updated",
        prev_head=str(blocks[0].prev),
        head=str(blocks[-1].hash),
        blocks=tuple(str(block.hash) for block in blocks),
        offset_start=slices[0].offset_interval.start if slices else None,
        offset_end=last.offset_interval.end if last else None,
        rows_added=rows[Operation.APPEND],
        rows_retracted=rows[Operation.RETRACT],
        rows_corrected=rows[Operation.CORRECT_TO],
        watermark=str(watermark) if watermark else None,
        physical_hash=str(last.physical_hash) if last else None,
        logical_hash=str(last.logical_hash) if last else None,
        size=last.size if last else None,
        slices=tuple(slice_receipt(part) for part in slices),
        iterations=len(events),
    )


def added_up(first: TransformReceipt, second: TransformReceipt) -> TransformReceipt:
    """Join the receipts of two successive iterations."""
    updated = "updated" in (first.outcome, second.outcome)
    counts = {name: getattr(first, name) + getattr(second, name) for name in _COUNTS}
    latest = {
        name: getattr(first, name) if getattr(second, name) is None else getattr(second, name)
        for name in (*_LATEST, *_ENGINE)
    }
    return replace(
        second,
        outcome="updated" if updated else "up-to-date",
        prev_head=first.prev_head,
        blocks=(*first.blocks, *second.blocks),
        slices=(*first.slices, *second.slices),
        offset_start=second.offset_start if first.offset_start is None else first.offset_start,
        reason=None if updated else second.reason,
        **counts,
        **latest,
    )


NOTHING_RECORDED = (
    "the new input gave neither rows nor a watermark, which no block can record; "
    "it is read again together with what comes next"
)


@dataclass(frozen=True, slots=True)
class Made:
    """The blocks of an iteration, whose objects are stored, with the state after them."""

    blocks: tuple[HashedBlock, ...]
    state: ChainState
    engine: Engine
    receipt: TransformReceipt


@dataclass(slots=True, kw_only=True)
class Run:
    """A transform job working on one derivative."""

    stores: Stores
    dataset: Dataset
    context: WorkerContext
    now: Instant
    may_reset: bool
    """Whether to compute the derivative anew if an input was rewritten."""
    everything_is_read: bool = False
    was_reset: bool = False
    warnings: list[str] = field(default_factory=list)

    def iterate(self) -> TransformReceipt:
        """Run one iteration, or report that there is nothing to do.

        Raises:
            NodeError: the transform, its inputs or the derivative does not allow it.
            RefConflict: other writers committed first too often.
        """
        lost = 0
        while True:
            try:
                return self._iterated()
            except RefConflict:
                lost += 1
                if lost == self.context.commit_attempts:
                    raise

    def _iterated(self) -> TransformReceipt:
        limits = self.context.transforms.limits
        while True:
            state = self.dataset.state()
            plan = self._plan(state, limits, may_reset=self.may_reset)
            match plan:
                case UpToDate(reason=reason):
                    return up_to_date(state.head, reason)
                case ResetFirst():
                    return self._anew()
            made = self._made(state, plan)
            if made is not None:
                with noted_as_computed(self.stores, self.dataset, made.engine, made.blocks[-1]):
                    self.dataset.commit(made.blocks, expected=plan.head)
                return made.receipt
            if not plan.has_more:
                return up_to_date(state.head, NOTHING_RECORDED)
            limits = limits.wider()

    def _anew(self) -> TransformReceipt:
        """Compute all rows from the beginning, and only then replace the old ones.

        Raises the same errors as `iterate`; then the old rows stay.
        """
        old = self.dataset.blocks()
        bare = rewritten(self.dataset, old, without_data(old), {})
        made, reason = self._all_made(bare.state)
        blocks = (*bare.blocks, *(block for one in made for block in one.blocks))
        whole = replaced(bare, blocks=blocks, state=made[-1].state if made else bare.state)
        with ExitStack() as notes:
            for one in made:
                noted = noted_as_computed(self.stores, self.dataset, one.engine, one.blocks[-1])
                notes.enter_context(noted)
            swap(self.stores, self.dataset, whole, beyond_quota=not made)
        self.was_reset = True
        if not made:
            return up_to_date(whole.head, reason)
        return reduce(added_up, [one.receipt for one in made])

    def _all_made(self, bare: ChainState) -> tuple[list[Made], str | None]:
        """Compute iteration by iteration from a state without rows, until all inputs are consumed;
        with the reason if there are none. An input that is rewritten meanwhile is begun again."""
        made, limits = list[Made](), self.context.transforms.limits
        begun = 1
        while True:
            state = made[-1].state if made else bare
            match plan := self._plan(state, limits, may_reset=True):
                case UpToDate(reason=reason):
                    return made, reason
                case ResetFirst(cause=cause):
                    if begun == self.context.commit_attempts:
                        raise cause
                    begun, made = begun + 1, []
                    continue
            one = self._made(state, plan)
            if one is not None:
                made.append(one)
            if not plan.has_more:
                return made, NOTHING_RECORDED
            limits = self.context.transforms.limits if one is not None else limits.wider()

    def _plan(
        self, state: ChainState, limits: IterationLimits, *, may_reset: bool
    ) -> TransformPlan | UpToDate | ResetFirst:
        definition = require_transform(state)
        refuse_hidden_inputs(
            self.stores, self.dataset.entry, state, everything_is_read=self.everything_is_read
        )
        inputs = input_datasets(self.stores, definition)
        refuse_cycle(self.stores, self.dataset.id, [dataset.id for dataset, _ in inputs])
        return plan_transform(
            state,
            input_chains(inputs, state, limits),
            now=self.now,
            limits=limits,
            reset_on_diverged=may_reset,
        )

    def _made(self, state: ChainState, plan: TransformPlan) -> Made | None:
        """Compute an iteration and store its objects; None if it has nothing to record."""
        engine = engine_for(plan.transform, self.context.engines.all)
        job_progress = self.context.job_progress
        job_progress.phase("read")
        with work_folder(self.context.scratch, "transform-") as name:
            files = input_files(Path(name), self.context.scratch, self.context.transforms)
            inputs = [self.stores.dataset(DatasetRef(id=item.id)) for item in plan.inputs]
            done = execute(
                self.dataset,
                plan,
                inputs,
                engine,
                files,
                Path(name) / "out",
                job_progress,
                checkpoint=checkpoint_file(self.dataset, plan, files),
            )
            done.made.check_values()
            job_progress.phase("commit")
            self.warnings += [text for text in done.warnings if text not in self.warnings]
            stored = self._stored(state, plan, done, engine)
            files.trim()
        return stored

    def _stored(
        self, state: ChainState, plan: TransformPlan, done: Executed, engine: Engine
    ) -> Made | None:
        events = events_of(plan, done)
        if not events:
            return None
        blocks, after = author(state, events, system_time=plan.system_time)
        made = done.made
        if made.data is not None:
            self._put(ObjectKind.DATA, made.data.physical_hash, made.data_path)
        if made.checkpoint is not None:
            self._put(ObjectKind.CHECKPOINT, made.checkpoint.physical_hash, made.checkpoint_path)
        column = plan.vocab.operation_type_column
        receipt = of_iteration(
            plan, blocks, engine, lambda _: operations_in(made.data_path, column)
        )
        receipt = replace(receipt, rows_late=done.late_rows)
        return Made(tuple(blocks), after, engine, receipt)

    def _put(self, kind: ObjectKind, content: Multihash, path: Path) -> None:
        self.context.objects.put(ObjectKey(self.dataset.id, kind, content), chunks(path))


def run_transform(
    stores: Stores,
    dataset: Dataset,
    payload: TransformPayload,
    context: WorkerContext,
    *,
    now: Instant,
    repeated: bool = False,
) -> TransformReceipt:
    """Compute new results, iteration by iteration. `now` is the time of the request.

    Ends when all inputs are consumed, or after some time with `has_more`.

    Raises: the same errors as `Run.iterate`; commits of earlier iterations of the job stay.
    """
    options = context.transforms
    asked = payload.reset_on_diverged
    run = Run(
        stores=stores,
        dataset=dataset,
        context=context,
        now=now,
        may_reset=options.reset_on_diverged if asked is None else asked,
        everything_is_read=bool(payload.everything_is_read),
    )
    total = None
    if repeated:
        total = of_blocks(committed_since(dataset, now), operations_of(dataset))
    deadline = time.monotonic() + options.seconds
    while True:
        receipt = run.iterate()
        total = receipt if total is None else added_up(total, receipt)
        if not receipt.has_more or time.monotonic() >= deadline:
            return replace(total, was_reset=run.was_reset, warnings=tuple(run.warnings))


def events_of(plan: TransformPlan, done: Executed) -> list[MetadataEvent]:
    """Return the events of an iteration; none if there is nothing that a block could record.

    A run on empty inputs only sets the schema.
    """
    made = done.made
    events: list[MetadataEvent] = [] if made.schema is None else [made.schema]
    event = plan.event(
        data=made.data, checkpoint=made.checkpoint, watermark=done.response.new_watermark
    )
    empty = event.new_data is None and event.new_checkpoint is None and event.new_watermark is None
    if plan.reads_something and not empty:
        events.append(event)
    return events


def input_files(folder: Path, scratch: Path, options: TransformOptions) -> InputFiles:
    """Return the files of a job that works in this folder; jobs share the copies in `scratch`."""
    return InputFiles(folder / "in", scratch / CACHE, cache_bytes=options.cache_bytes)


def committed_since(dataset: Dataset, now: Instant) -> list[HashedBlock]:
    """Return the blocks that an earlier attempt of the same job committed, oldest first."""
    newest = []
    for block in backwards(dataset, dataset.head()):
        if block.block.system_time < now:
            break
        newest.append(block)
    executed = any(isinstance(block.event, ExecuteTransform) for block in newest)
    return newest[::-1] if executed else []
