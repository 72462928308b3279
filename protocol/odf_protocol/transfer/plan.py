"""The objects that blocks refer to, and the totals of a transfer.

Source: ODF "Smart transfer protocol"; linked objects are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..metadata.block import HashedBlock
from ..metadata.events import AddData, ExecuteTransform
from .messages import ObjectFileReference, ObjectType, TransferPlan


def transfer_plan(blocks: Iterable[HashedBlock]) -> TransferPlan:
    """Return totals over the blocks, as their metadata states them."""
    num_blocks = num_objects = num_records = raw_bytes = object_bytes = 0
    for block in blocks:
        num_blocks += 1
        raw_bytes += len(block.raw)
        num_records += _records(block)
        for named in _named(block):
            num_objects += 1
            object_bytes += named.size
    return TransferPlan(
        num_blocks=num_blocks,
        num_objects=num_objects,
        num_records=num_records,
        bytes_in_raw_blocks=raw_bytes,
        bytes_in_raw_objects=object_bytes,
    )


def object_files(blocks: Iterable[HashedBlock]) -> list[ObjectFileReference]:
    """Return data slices and checkpoints in chain order, each once."""
    found: dict[tuple[object, object], ObjectFileReference] = {}
    for block in blocks:
        for named in _named(block):
            found.setdefault((named.object_type, named.physical_hash), named)
    return list(found.values())


def _named(block: HashedBlock) -> Iterator[ObjectFileReference]:
    match block.event:
        case AddData() | ExecuteTransform() as event:
            pairs = (
                (ObjectType.DataSlice, event.new_data),
                (ObjectType.Checkpoint, event.new_checkpoint),
            )
            for object_type, named in pairs:
                if named is not None:
                    yield ObjectFileReference(
                        object_type=object_type,
                        physical_hash=named.physical_hash,
                        size=named.size,
                    )


def _records(block: HashedBlock) -> int:
    match block.event:
        case AddData(new_data=new_data) | ExecuteTransform(new_data=new_data) if new_data:
            interval = new_data.offset_interval
            return max(0, interval.end - interval.start + 1)
    return 0
