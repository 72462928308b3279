"""Compact a dataset of this node: plan, commit, receipt, and compaction to metadata only.

The result of a change of history, as a job or an endpoint reports it.

Set a watermark by hand: a root dataset declares that no older events will follow.

Reset: move the head back to an earlier block; later blocks leave the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, DatasetKind, DataSlice, HashedBlock
from odf_protocol.multihash import Multihash
from odf_protocol.sources.source_marks import repeated_marks, with_marks
from odf_protocol.typed import convert

from ...stores.ports.errors import RefConflict
from ...stores.ports.values import DatasetEntry
from ..dataset.dataset import Dataset
from ..node.stores import Stores
from .compaction import (
    Merge,
    SliceLimits,
    Step,
    hard_compaction,
    invalid_dataset_kind,
    move_head,
    rewritten,
    rows_of,
    swap,
    without_data,
)


class MergedBlocks(Struct, frozen=True, kw_only=True, rename="camel"):
    """Blocks that became, or would become, one block. Block numbers are those before the change;
    the offsets include both ends."""

    from_block: int
    to_block: int
    slices: int
    offset_start: int
    offset_end: int
    size: int
    """Bytes of the slices that are merged."""


class HistoryReceipt(Struct, frozen=True, kw_only=True, rename="camel"):
    """Heads, and numbers of blocks and records, before and after the change."""

    outcome: Literal["updated", "up-to-date", "nothing-to-do"]
    prev_head: str
    head: str | None
    """New head; None for a dry run, which makes no blocks."""
    blocks_before: int
    blocks_after: int
    records_before: int
    records_after: int
    dry_run: bool = False
    merges: tuple[MergedBlocks, ...] = ()
    watermark: str | None = None
    warnings: tuple[str, ...] = ()


def to_json(receipt: HistoryReceipt) -> dict[str, Any]:
    return dict(msgspec.to_builtins(receipt))


def receipt_of(value: dict[str, Any]) -> HistoryReceipt:
    return convert(value, HistoryReceipt)


ATTEMPTS = 5
AHEAD = 86_400 * 10**9
"""Nanoseconds ahead of the clock, beyond which a watermark is told to be so."""
GOES_BACK = "the watermark is {} already, and never goes back: docs/history.md has the ways out"
IS_AHEAD = (
    "the watermark is ahead of the clock, and never goes back: derivatives leave out rows of "
    "windows before {} that come from now on"
)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The present chain, and the steps of the planned chain; both oldest first."""

    old: Sequence[HashedBlock]
    steps: Sequence[Step]

    @property
    def merges(self) -> list[Merge]:
        return [step for step in self.steps if isinstance(step, Merge)]

    @property
    def is_empty(self) -> bool:
        """Whether every block stays."""
        return len(self.old) == len(self.steps) and not self.merges


def plan_hard(dataset: Dataset, limits: SliceLimits) -> CompactionPlan:
    """Plan a hard compaction. Raise `InvalidDatasetKind` for a derivative: its rows could not be
    computed again."""
    if dataset.entry.kind is not DatasetKind.Root:
        raise invalid_dataset_kind(DatasetKind.Root, "hard compaction")
    blocks = dataset.blocks()
    return CompactionPlan(blocks, hard_compaction(blocks, limits))


def commit_plan(
    stores: Stores,
    dataset: Dataset,
    plan: CompactionPlan,
    slices: dict[tuple[Multihash, ...], DataSlice],
) -> HistoryReceipt:
    """Move the head onto the planned chain. Raises as `rewritten` and `swap`."""
    rewrite = rewritten(dataset, plan.old, plan.steps, slices)
    swap(stores, dataset, rewrite)
    return described(dataset, plan, head=rewrite.head)


def keep_metadata_only(
    stores: Stores, entry: DatasetEntry, *, dry_run: bool = False
) -> HistoryReceipt:
    """Drop all data, watermark and source state of a dataset of any kind.

    Raises:
        RefConflict: other writers moved the head at every attempt.
    """
    dataset = Dataset(entry, stores)
    for attempt in range(1, ATTEMPTS + 1):
        blocks = dataset.blocks()
        plan = CompactionPlan(blocks, without_data(blocks))
        if plan.is_empty or dry_run:
            return described(dataset, plan, head=None, dry_run=dry_run)
        try:
            return commit_plan(stores, dataset, plan, {})
        except RefConflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def described(
    dataset: Dataset, plan: CompactionPlan, *, head: Multihash | None, dry_run: bool = False
) -> HistoryReceipt:
    """Return the receipt of the plan; `head` is the new head, None if it was not made."""
    old_head = plan.old[-1].hash
    before = dataset.state(old_head)
    if plan.is_empty:
        head = old_head
    return HistoryReceipt(
        outcome="nothing-to-do" if plan.is_empty else "updated",
        prev_head=str(old_head),
        head=None if head is None else str(head),
        blocks_before=len(plan.old),
        blocks_after=len(plan.steps),
        records_before=before.num_records,
        records_after=sum(_rows(step) for step in plan.steps),
        dry_run=dry_run,
        merges=tuple(_merged(merge) for merge in plan.merges),
    )


def _rows(step: Step) -> int:
    if isinstance(step, Merge):
        return sum(rows_of(data) for data in step.slices)
    data = getattr(step.block.event, "new_data", None)
    return 0 if data is None else rows_of(data)


def _merged(merge: Merge) -> MergedBlocks:
    slices = merge.slices
    return MergedBlocks(
        from_block=merge.blocks[0].sequence_number,
        to_block=merge.blocks[-1].sequence_number,
        slices=len(slices),
        offset_start=slices[0].offset_interval.start,
        offset_end=slices[-1].offset_interval.end,
        size=sum(data.size for data in slices),
    )


def set_watermark(
    stores: Stores, entry: DatasetEntry, watermark: Instant, *, now: Instant, dry_run: bool = False
) -> HistoryReceipt:
    """Add a block with this watermark, unless it is not later than the present one.

    The block repeats the source state and checkpoint of the last data block: the newest block
    decides, and a poll must not start from the beginning because of a watermark.

    Raises:
        IsDerivative, IsRemote.
        RefConflict: other writers moved the head at every attempt.
    """
    if entry.kind is DatasetKind.Derivative:
        raise BadInput("IsDerivative", "the watermark of a derivative follows from its inputs")
    if stores.mirrors.find(entry.id) is not None:
        raise BadInput("IsRemote", "the dataset follows another one; set the watermark there")
    dataset = Dataset(entry, stores)
    for attempt in range(1, ATTEMPTS + 1):
        state = dataset.state(dataset.head())
        if state.watermark is not None and watermark <= state.watermark:
            same = watermark == state.watermark
            told = () if same else (GOES_BACK.format(state.watermark),)
            return _receipt(state, state, dry_run=dry_run, warnings=told)
        time = now if state.system_time is None else max(now, state.system_time)
        blocks, after = author(state, (_event(state, watermark),), system_time=time)
        try:
            if not dry_run and state.head is not None:
                dataset.commit(blocks, expected=state.head)
        except RefConflict:
            if attempt == ATTEMPTS:
                raise
        else:
            told = (IS_AHEAD.format(watermark),) if watermark.ns - now.ns > AHEAD else ()
            return _receipt(state, after, dry_run=dry_run, warnings=told)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _event(state: ChainState, watermark: Instant) -> AddData:
    last = state.last_add_data
    return AddData(
        prev_checkpoint=state.last_checkpoint,
        prev_offset=state.last_offset,
        new_checkpoint=last.new_checkpoint if last else None,
        new_watermark=watermark,
        new_source_state=state.last_source_state,
        extra=with_marks(None, repeated_marks(last)),
    )


def _receipt(
    before: ChainState, after: ChainState, *, dry_run: bool, warnings: tuple[str, ...] = ()
) -> HistoryReceipt:
    changed = after is not before
    return HistoryReceipt(
        outcome="updated" if changed else "up-to-date",
        prev_head=str(before.head),
        head=None if changed and dry_run else str(after.head),
        blocks_before=before.num_blocks,
        blocks_after=after.num_blocks,
        records_before=before.num_records,
        records_after=after.num_records,
        dry_run=dry_run,
        watermark=None if after.watermark is None else str(after.watermark),
        warnings=warnings,
    )


def old_head_mismatch(expected: Multihash, actual: Multihash) -> Conflict:
    """The head is not the one the caller expects."""
    return Conflict(
        "OldHeadMismatch",
        f"the head is {actual}, not {expected}: look again before resetting",
        expected=str(expected),
        actual=str(actual),
    )


def not_an_ancestor(block: Multihash, head: Multihash) -> BadInput:
    """The block is not an ancestor of the head, so it is not an earlier state of the dataset."""
    return BadInput(
        "NotAnAncestor",
        f"block {block} is not among the ancestors of the head {head}",
        block=str(block),
        head=str(head),
    )


def reset(
    stores: Stores,
    entry: DatasetEntry,
    *,
    target: Multihash | None = None,
    old_head: Multihash | None = None,
    dry_run: bool = False,
) -> HistoryReceipt:
    """Move the head to `target`, by default the Seed.

    Raises:
        OldHeadMismatch: the head is not `old_head`.
        BlockNotFound: there is no block `target`.
        NotAnAncestor: `target` is not in the history.
        RefConflict: another writer moved the head meanwhile.
    """
    dataset = Dataset(entry, stores)
    head = dataset.head()
    if old_head is not None and old_head != head:
        raise old_head_mismatch(old_head, head)
    new = _ancestor(stores, dataset, head, target)
    before, after = dataset.state(head), dataset.state(new)
    if new != head and not dry_run:
        move_head(stores, dataset, head, new)
        remember_inputs(stores, dataset)
    return HistoryReceipt(
        outcome="up-to-date" if new == head else "updated",
        prev_head=str(head),
        head=str(new),
        blocks_before=before.num_blocks,
        blocks_after=after.num_blocks,
        records_before=before.num_records,
        records_after=after.num_records,
        dry_run=dry_run,
    )


def _ancestor(
    stores: Stores, dataset: Dataset, head: Multihash, target: Multihash | None
) -> Multihash:
    """Return the target block after checking that it is in the history. Raise `NotAnAncestor`."""
    down_to = 0 if target is None else dataset.block(target).sequence_number
    last = None
    for last in stores.blocks.lineage(dataset.id, head, down_to=down_to):  # noqa: B007
        pass
    if last is None or (target is not None and last != target):
        raise not_an_ancestor(target or head, head)
    return last


def remember_inputs(stores: Stores, dataset: Dataset) -> None:
    """Record the inputs that the chain declares now in the registry."""
    declared = dataset.state().declared_inputs or ()
    stores.registry.set_inputs(dataset.id, [item for item in declared if item is not None])
