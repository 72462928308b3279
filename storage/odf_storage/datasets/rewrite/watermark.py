"""Set a watermark by hand: a root dataset declares that no older events will follow."""

from __future__ import annotations

from odf_protocol.chain.author import author
from odf_protocol.chain.state import ChainState
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, DatasetKind
from odf_protocol.source_marks import repeated_marks, with_marks

from ...stores.ports.errors import RefConflict
from ...stores.ports.values import DatasetEntry
from ..dataset.dataset import Dataset
from ..node.stores import Stores
from .receipt import HistoryReceipt

ATTEMPTS = 5


class IsDerivative(BadInput):
    """The watermark of a derivative is computed from the watermarks of its inputs."""


class IsRemote(BadInput):
    """The dataset mirrors one on another node, where its watermark has to be set."""


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
        raise IsDerivative("the watermark of a derivative follows from its inputs")
    if stores.mirrors.find(entry.id) is not None:
        raise IsRemote("the dataset follows another one; set the watermark there")
    dataset = Dataset(entry, stores)
    for attempt in range(1, ATTEMPTS + 1):
        state = dataset.state(dataset.head())
        if state.watermark is not None and watermark <= state.watermark:
            return _receipt(state, state, dry_run=dry_run)
        time = now if state.system_time is None else max(now, state.system_time)
        blocks, after = author(state, (_event(state, watermark),), system_time=time)
        try:
            if not dry_run and state.head is not None:
                dataset.commit(blocks, expected=state.head)
        except RefConflict:
            if attempt == ATTEMPTS:
                raise
        else:
            return _receipt(state, after, dry_run=dry_run)
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


def _receipt(before: ChainState, after: ChainState, *, dry_run: bool) -> HistoryReceipt:
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
    )
