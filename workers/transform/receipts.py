"""Receipts of transforms: for one iteration, for several, for what an earlier attempt did."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from protocol.metadata.block import HashedBlock
from protocol.metadata.events import ExecuteTransform
from protocol.multihash import Multihash
from storage.ingest_job import slice_receipt
from storage.transform_job import TransformReceipt

from ..engine.port import Engine
from ..plan.transform import TransformPlan

_COUNTS = ("rows_read", "rows_added", "iterations")
_LATEST = ("watermark", "physical_hash", "logical_hash", "size", "offset_end")
_ENGINE = ("engine", "engine_version")


def up_to_date(head: Multihash | None, reason: str | None) -> TransformReceipt:
    """Nothing was written."""
    return TransformReceipt(
        outcome="up-to-date", prev_head=str(head), head=str(head), reason=reason
    )


def of_iteration(
    plan: TransformPlan, blocks: Sequence[HashedBlock], engine: Engine
) -> TransformReceipt:
    """What one iteration committed."""
    known = of_blocks(blocks) or up_to_date(plan.head, None)
    read = sum(
        interval.end - interval.start + 1
        for item in plan.inputs
        if (interval := item.offset_interval) is not None
    )
    return replace(
        known,
        rows_read=read,
        has_more=plan.has_more,
        engine=engine.name,
        engine_version=engine.version,
    )


def of_blocks(blocks: Sequence[HashedBlock]) -> TransformReceipt | None:
    """The receipt of blocks whose own was lost; it does not know how many rows were read."""
    if not blocks:
        return None
    events = [block.event for block in blocks if isinstance(block.event, ExecuteTransform)]
    slices = [event.new_data for event in events if event.new_data is not None]
    last = slices[-1] if slices else None
    watermark = events[-1].new_watermark if events else None
    rows = sum(part.offset_interval.end - part.offset_interval.start + 1 for part in slices)
    return TransformReceipt(
        outcome="updated",
        prev_head=str(blocks[0].prev),
        head=str(blocks[-1].hash),
        blocks=tuple(str(block.hash) for block in blocks),
        offset_start=slices[0].offset_interval.start if slices else None,
        offset_end=last.offset_interval.end if last else None,
        rows_added=rows,
        watermark=str(watermark) if watermark else None,
        physical_hash=str(last.physical_hash) if last else None,
        logical_hash=str(last.logical_hash) if last else None,
        size=last.size if last else None,
        slices=tuple(slice_receipt(part) for part in slices),
        iterations=len(events),
    )


def added_up(first: TransformReceipt, second: TransformReceipt) -> TransformReceipt:
    """One receipt for two iterations that follow each other."""
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
