"""Blocks tell what has to travel with them."""

from __future__ import annotations

from odf_protocol.codec.blocks import encode_block
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    Checkpoint,
    DataSlice,
    ExecuteTransform,
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    SetInfo,
    UnknownEvent,
)
from odf_protocol.multihash import ARROW0_SHA3_256, Multihash
from odf_protocol.transfer.messages import ObjectFileReference, ObjectType
from odf_protocol.transfer.phases import object_files, transfer_plan

NOW = Instant.parse("2024-01-01T00:00:00Z")
ONE, TWO, THREE = (Multihash.of(text) for text in (b"1", b"2", b"3"))


def _slice(content: Multihash, start: int, end: int, size: int) -> DataSlice:
    return DataSlice(
        logical_hash=Multihash(ARROW0_SHA3_256, bytes(32)),
        physical_hash=content,
        offset_interval=OffsetInterval(start=start, end=end),
        size=size,
    )


def _block(event: MetadataEvent) -> HashedBlock:
    return encode_block(MetadataBlock(system_time=NOW, sequence_number=1, event=event))


BLOCKS = [
    _block(SetInfo()),
    _block(
        AddData(
            new_data=_slice(ONE, 0, 9, 100), new_checkpoint=Checkpoint(physical_hash=TWO, size=5)
        )
    ),
    _block(AddData(new_watermark=NOW)),
    _block(
        ExecuteTransform(
            query_inputs=(),
            new_data=_slice(THREE, 10, 10, 30),
            new_checkpoint=Checkpoint(physical_hash=TWO, size=5),
        )
    ),
]


def test_the_plan_counts_blocks_objects_records_and_bytes() -> None:
    plan = transfer_plan(BLOCKS)
    assert (plan.num_blocks, plan.num_objects, plan.num_records) == (4, 4, 11)
    assert plan.bytes_in_raw_blocks == sum(len(block.raw) for block in BLOCKS)
    assert plan.bytes_in_raw_objects == 140


def test_objects_are_listed_once_in_chain_order() -> None:
    assert object_files(BLOCKS) == [
        ObjectFileReference(object_type=ObjectType.DataSlice, physical_hash=ONE, size=100),
        ObjectFileReference(object_type=ObjectType.Checkpoint, physical_hash=TWO, size=5),
        ObjectFileReference(object_type=ObjectType.DataSlice, physical_hash=THREE, size=30),
    ]


def test_events_of_newer_peers_name_no_objects_we_know() -> None:
    unknown = MetadataBlock(
        system_time=NOW, sequence_number=1, event=UnknownEvent(discriminator=99)
    )
    block = HashedBlock(hash=ONE, raw=b"123", block=unknown)
    assert object_files([block]) == []
    assert transfer_plan([block]).bytes_in_raw_blocks == 3
