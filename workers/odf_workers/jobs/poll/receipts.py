"""Receipts of polls: without new data, of several fetches, of blocks from an earlier attempt."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import AddData
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads.ingest_job import facts_of_slices
from odf_storage.datasets.job_payloads.poll_job import PollReceipt

MAX_WARNINGS = 100
"""Limit of different warnings in the receipt of a poll."""
_COUNTS = ("rows_read", "rows_added", "rows_known", "rows_retracted", "rows_corrected", "fetches")
_LATEST = ("watermark", "physical_hash", "logical_hash", "size", "offset_end")


def up_to_date(
    head: Multihash | None,
    *,
    uncacheable: bool = False,
    no_source_defined: bool = False,
    warnings: Sequence[str] = (),
) -> PollReceipt:
    """Return the receipt of a poll that wrote nothing."""
    return PollReceipt(
        outcome="up-to-date",
        prev_head=str(head),
        head=str(head),
        uncacheable=uncacheable,
        no_source_defined=no_source_defined,
        warnings=tuple(warnings),
    )


def added_up(first: PollReceipt, second: PollReceipt) -> PollReceipt:
    """Join the receipts of two successive polls."""
    updated = "updated" in (first.outcome, second.outcome)
    counts = {name: getattr(first, name) + getattr(second, name) for name in _COUNTS}
    latest = {
        name: getattr(first, name) if getattr(second, name) is None else getattr(second, name)
        for name in _LATEST
    }
    start = second.offset_start if first.offset_start is None else first.offset_start
    return replace(
        second,
        outcome="updated" if updated else "up-to-date",
        prev_head=first.prev_head,
        blocks=(*first.blocks, *second.blocks),
        slices=(*first.slices, *second.slices),
        warnings=tuple(dict.fromkeys((*first.warnings, *second.warnings)))[:MAX_WARNINGS],
        offset_start=start,
        uncacheable=second.uncacheable and not updated,
        ran=first.ran if second.ran is None else second.ran.added_to(first.ran),
        **counts,
        **latest,
    )


def of_blocks(blocks: Sequence[HashedBlock]) -> PollReceipt | None:
    """Make a receipt of blocks whose original receipt was lost; the number of read rows is
    unknown."""
    if not blocks:
        return None
    events = [block.event for block in blocks if isinstance(block.event, AddData)]
    slices = [event.new_data for event in events if event.new_data is not None]
    watermark = events[-1].new_watermark if events else None
    return PollReceipt(
        outcome="updated",
        prev_head=str(blocks[0].prev),
        head=str(blocks[-1].hash),
        blocks=tuple(str(block.hash) for block in blocks),
        watermark=str(watermark) if watermark else None,
        fetches=len(events),
        **facts_of_slices(slices),
    )
