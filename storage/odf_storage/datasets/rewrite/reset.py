"""Reset: move the head back to an earlier block; later blocks leave the history."""

from __future__ import annotations

from odf_protocol.errors import BadInput, Conflict
from odf_protocol.multihash import Multihash

from ...stores.ports.values import DatasetEntry
from ..dataset.dataset import Dataset
from ..node.stores import Stores
from .receipt import HistoryReceipt
from .rewrite import move_head


class OldHeadMismatch(Conflict):
    """The head is not the one the caller expects."""

    def __init__(self, expected: Multihash, actual: Multihash) -> None:
        super().__init__(
            f"the head is {actual}, not {expected}: look again before resetting",
            expected=str(expected),
            actual=str(actual),
        )


class NotAnAncestor(BadInput):
    """The block is not an ancestor of the head, so it is not an earlier state of the dataset."""

    def __init__(self, block: Multihash, head: Multihash) -> None:
        super().__init__(
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
        raise OldHeadMismatch(old_head, head)
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
        raise NotAnAncestor(target or head, head)
    return last


def remember_inputs(stores: Stores, dataset: Dataset) -> None:
    """Record the inputs that the chain declares now in the registry."""
    declared = dataset.state().declared_inputs or ()
    stores.registry.set_inputs(dataset.id, [item for item in declared if item is not None])
