"""Datasets that the checks publish: blocks, real Parquet slices and checkpoints, in memory.

The module makes blocks with the codec and does not apply the chain rules, so that a chain can be
wrong on purpose. A client also stores in a `Chain` what it pulled.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.codec.blocks import decode_block, encode_block
from odf_protocol.columns.arrow_digest import logical_hash
from odf_protocol.commitments import key_pair
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    BlockVersion,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
    SetPollingSource,
)
from odf_protocol.metadata.schema import (
    DataField,
    DataSchema,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
)
from odf_protocol.metadata.sources import FetchStepUrl, MergeStrategyAppend, ReadStepCsv
from odf_protocol.multihash import Multihash

START = Instant.parse("2050-01-01T12:00:00Z")
MINUTE_NS = 60 * 10**9
DATA, CHECKPOINTS = "data", "checkpoints"
OBJECT_TYPES = {DATA: "DataSlice", CHECKPOINTS: "Checkpoint"}
FOLDERS = {name: folder for folder, name in OBJECT_TYPES.items()}
ObjectName = tuple[str, str]
"""Folder and hash of an object."""


def hash_of(content: bytes) -> str:
    """Return the name of content: its SHA3-256 multihash in base16."""
    return "f1620" + hashlib.sha3_256(content).hexdigest()


@dataclass(frozen=True)
class Block:
    """Bytes and name of a block, and the fields of it that a client uses."""

    hash: str
    raw: bytes
    prev: str | None
    number: int
    event: Any

    @classmethod
    def of(cls, raw: bytes) -> Block:
        """Decode the bytes of a block. Raises the codec's errors."""
        found = decode_block(raw)
        prev = None if found.prev is None else str(found.prev)
        return cls(hash_of(raw), raw, prev, found.sequence_number, found.event)

    @property
    def files(self) -> list[dict[str, Any]]:
        """The `ObjectFileReference`s of the data and the checkpoint that the block adds."""
        if not isinstance(self.event, AddData | ExecuteTransform):
            return []
        brought = ((DATA, self.event.new_data), (CHECKPOINTS, self.event.new_checkpoint))
        return [
            {
                "object_type": OBJECT_TYPES[folder],
                "physical_hash": str(item.physical_hash),
                "size": item.size,
            }
            for folder, item in brought
            if item is not None
        ]

    @property
    def records(self) -> int:
        new = getattr(self.event, "new_data", None)
        return 0 if new is None else new.offset_interval.end - new.offset_interval.start + 1


@dataclass
class Chain:
    """A dataset: its blocks, oldest first, and the objects that it has."""

    blocks: list[Block] = field(default_factory=list)
    objects: dict[ObjectName, bytes] = field(default_factory=dict)

    @property
    def head(self) -> str | None:
        return self.blocks[-1].hash if self.blocks else None

    @property
    def seed(self) -> Seed:
        event = self.blocks[0].event
        if not isinstance(event, Seed):
            raise TypeError("the first block is no Seed")
        return event

    @property
    def id(self) -> DatasetId:
        return self.seed.dataset_id

    def add(self, *events: MetadataEvent, version: BlockVersion = 3, **frame: Any) -> Chain:
        """Append a block for each event. Its fields are correct unless `frame` replaces them."""
        for event in events:
            last = self.blocks[-1] if self.blocks else None
            number = 0 if last is None else last.number + 1
            fitting = {
                "system_time": Instant(START.ns + number * MINUTE_NS),
                "prev_block_hash": None if last is None else Multihash.parse(last.hash),
                "sequence_number": number,
            }
            block = MetadataBlock(event=event, **{**fitting, **frame})
            self.blocks.append(Block.of(encode_block(block, version).raw))
        return self

    def add_rows(
        self,
        count: int,
        *,
        checkpoint: bytes | None = None,
        version: BlockVersion = 3,
        **changes: Any,
    ) -> Chain:
        """Append AddData with a slice of `count` rows. `changes` replace fields of the event."""
        last = self._last_data()
        start = 0
        if last is not None and last.new_data is not None:
            start = last.new_data.offset_interval.end + 1
        content, logical = rows(start, count)
        piece = DataSlice(
            logical_hash=logical,
            physical_hash=Multihash.of(content),
            offset_interval=OffsetInterval(start=start, end=start + count - 1),
            size=len(content),
        )
        self.objects[DATA, str(piece.physical_hash)] = content
        fitting = {
            "prev_checkpoint": _checkpoint_hash(last),
            "prev_offset": start - 1 if start else None,
            "new_data": piece,
            "new_checkpoint": self._checkpoint(checkpoint),
            "new_watermark": START,
        }
        return self.add(AddData(**{**fitting, **changes}), version=version)

    def upto(self, count: int) -> Chain:
        """Return a copy of the first `count` blocks, with the objects that they need."""
        blocks = self.blocks[:count]
        needed = {object_name(file) for block in blocks for file in block.files}
        kept = {name: content for name, content in self.objects.items() if name in needed}
        return Chain(list(blocks), kept)

    def copy(self) -> Chain:
        return Chain(list(self.blocks), dict(self.objects))

    def files(self, start: int = 0) -> list[dict[str, Any]]:
        """Return the references of all objects that the blocks from index `start` add."""
        return [file for block in self.blocks[start:] for file in block.files]

    def position(self, block: str | None) -> int | None:
        """Return the index of a block in this chain, or None if the chain does not have it."""
        return next((at for at, own in enumerate(self.blocks) if own.hash == block), None)

    def _last_data(self) -> AddData | None:
        events = (block.event for block in reversed(self.blocks))
        return next((event for event in events if isinstance(event, AddData)), None)

    def _checkpoint(self, content: bytes | None) -> Checkpoint | None:
        if content is None:
            return None
        self.objects[CHECKPOINTS, hash_of(content)] = content
        return Checkpoint(physical_hash=Multihash.of(content), size=len(content))


def _checkpoint_hash(last: AddData | None) -> Multihash | None:
    return (
        None if last is None or last.new_checkpoint is None else last.new_checkpoint.physical_hash
    )


def object_name(file: dict[str, Any]) -> ObjectName:
    return FOLDERS[file["object_type"]], file["physical_hash"]


SCHEMA = DataSchema(
    fields=(
        DataField(name="offset", type=DataTypeInt64()),
        DataField(name="op", type=DataTypeInt32()),
        DataField(name="system_time", type=DataTypeTimestamp()),
        DataField(name="event_time", type=DataTypeTimestamp()),
        DataField(name="city", type=DataTypeOption(inner=DataTypeString())),
        DataField(name="population", type=DataTypeOption(inner=DataTypeInt64())),
    )
)
POLLING = SetPollingSource(
    fetch=FetchStepUrl(url="https://example.org/cities.csv"),
    read=ReadStepCsv(header=True),
    merge=MergeStrategyAppend(),
)


@cache
def rows(start: int, count: int) -> tuple[bytes, Multihash]:
    """Return a slice of the above schema (cities `c0`, `c1`, … by offset) and its logical hash."""
    utc = pa.timestamp("ms", "UTC")
    offsets = list(range(start, start + count))
    table = pa.table(
        {
            "offset": pa.array(offsets, pa.int64()),
            "op": pa.array([0] * count, pa.int32()),
            "system_time": pa.array([START.millis] * count, utc),
            "event_time": pa.array([START.millis] * count, utc),
            "city": pa.array([f"c{number}" for number in offsets], pa.string()),
            "population": pa.array([number * 100 for number in offsets], pa.int64()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue(), logical_hash(table.to_batches(), table.schema)


def seeded(key: bytes | None = None) -> Chain:
    """Return dataset F1: a Seed, nothing else. The same 32 bytes give the same dataset."""
    dataset = key_pair(key or os.urandom(32)).dataset_id
    return Chain().add(Seed(dataset_id=dataset, dataset_kind=DatasetKind.Root))


def without_data(key: bytes | None = None) -> Chain:
    """Return dataset F3: Seed, SetPollingSource, SetDataSchema."""
    return seeded(key).add(POLLING, SetDataSchema(schema=SCHEMA))


def ten_records(key: bytes | None = None) -> Chain:
    """Return dataset F4: F3 and ten records with a checkpoint."""
    return without_data(key).add_rows(10, checkpoint=os.urandom(321))


def evolved(before: Chain) -> Chain:
    """Return dataset EV: the chain followed by a SetInfo and an AddData."""
    return before.copy().add(described("evolved")).add_rows(5, checkpoint=os.urandom(64))


def grown(key: bytes) -> Chain:
    """Return dataset DV before compaction: several AddData."""
    return without_data(key).add_rows(3).add_rows(4).add_rows(2, checkpoint=os.urandom(99))


def compacted(key: bytes) -> Chain:
    """Return dataset DV after compaction: the same records in one slice, with another history."""
    return without_data(key).add_rows(9, checkpoint=os.urandom(99))


def described(text: str) -> SetInfo:
    return SetInfo(description=text, keywords=("conformance",))
