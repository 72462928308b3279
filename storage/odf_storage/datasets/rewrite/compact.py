"""Compact a dataset of this node: plan, commit, receipt, and compaction to metadata only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.data import DataSlice
from odf_protocol.metadata.events import DatasetKind
from odf_protocol.multihash import Multihash

from ...stores.ports.errors import RefConflict
from ...stores.ports.values import DatasetEntry
from ..dataset.dataset import Dataset
from ..node.stores import Stores
from .compaction import (
    InvalidDatasetKind,
    Merge,
    SliceLimits,
    Step,
    hard_compaction,
    rows_of,
    without_data,
)
from .receipt import HistoryReceipt, MergedBlocks
from .rewrite import rewritten, swap

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Plan:
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


def plan_hard(dataset: Dataset, limits: SliceLimits) -> Plan:
    """Plan a hard compaction. Raise `InvalidDatasetKind` for a derivative: its rows could not be
    computed again."""
    if dataset.entry.kind is not DatasetKind.Root:
        raise InvalidDatasetKind(DatasetKind.Root, "hard compaction")
    blocks = dataset.blocks()
    return Plan(blocks, hard_compaction(blocks, limits))


def commit_plan(
    stores: Stores,
    dataset: Dataset,
    plan: Plan,
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
        plan = Plan(blocks, without_data(blocks))
        if plan.is_empty or dry_run:
            return described(dataset, plan, head=None, dry_run=dry_run)
        try:
            return commit_plan(stores, dataset, plan, {})
        except RefConflict:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def described(
    dataset: Dataset, plan: Plan, *, head: Multihash | None, dry_run: bool = False
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
