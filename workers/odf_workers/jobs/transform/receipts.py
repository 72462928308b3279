"""Receipts of transforms: of one iteration, of several, of blocks from an earlier attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.data import DataSlice
from odf_protocol.metadata.events import ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.ingest_job import slice_receipt
from odf_storage.datasets.job_payloads.transform_job import TransformReceipt
from odf_storage.stores.ports.values import ObjectKind

from ...engines.port.port import Engine
from ...plan.transform import TransformPlan
from ...slices.columns import Operation

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
