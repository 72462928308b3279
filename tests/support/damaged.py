"""A dataset in a dictionary, to be damaged at will, for verification."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from chain_maker import checkpoint_of, linked, parquet, seed, slice_of, some_id, table
from msgspec.structs import replace

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    HashedBlock,
    MetadataEvent,
    SetDataSchema,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf_protocol.multihash import Multihash
from odf_storage.datasets.verify.run import VerifyReport
from odf_storage.stores.index.named_objects import named_objects
from odf_storage.stores.ports.errors import ObjectNotFound
from odf_storage.stores.ports.values import ObjectKind

ID, INPUT = some_id("verified"), some_id("input")
ROWS = 3
ROOT = ["Seed", "SetDataSchema", "AddData", "AddData"]
DERIVATIVE = ["Seed", "SetTransform", "SetDataSchema", "ExecuteTransform", "ExecuteTransform"]
PLAIN = {"compression": "none", "use_dictionary": False}
"""Files of equal length for rows of equal length."""


class DictSource:
    """Blocks and objects by hash; `seekable=False` reads like a socket."""

    def __init__(self, *, seekable: bool = True) -> None:
        self.objects: dict[tuple[ObjectKind, Multihash], bytes] = {}
        self.tip: Multihash | None = None
        self.seekable = seekable
        self.largest_read = 0
        self.bytes_read = dict.fromkeys(ObjectKind, 0)

    def head(self) -> Multihash:
        assert self.tip is not None
        return self.tip

    def block_bytes(self, block: Multihash) -> bytes:
        return self.open_object(ObjectKind.BLOCK, block).read()

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        if (kind, object_hash) not in self.objects:
            raise ObjectNotFound(kind, object_hash)
        return _Stream(self, kind, self.objects[kind, object_hash])

    def put(self, kind: ObjectKind, content: bytes) -> Multihash:
        object_hash = Multihash.of(content)
        self.objects[kind, object_hash] = content
        return object_hash

    def flip(self, kind: ObjectKind, object_hash: Multihash) -> None:
        """Change one byte in the middle."""
        content = bytearray(self.objects[kind, object_hash])
        content[len(content) // 2] ^= 0x40
        self.objects[kind, object_hash] = bytes(content)


class _Stream(io.BytesIO):
    def __init__(self, source: DictSource, kind: ObjectKind, content: bytes) -> None:
        super().__init__(content)
        self._source, self._kind = source, kind

    def seekable(self) -> bool:
        return self._source.seekable

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self._source.largest_read = max(self._source.largest_read, len(content))
        self._source.bytes_read[self._kind] += len(content)
        return content

    def readinto(self, buffer: Any, /) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class DatasetMaker:
    """Builds a valid dataset event by event, named as in the verification vectors."""

    def __init__(self, kind: DatasetKind = DatasetKind.Root, source: DictSource | None = None):
        self.kind, self.source = kind, source or DictSource()
        self.blocks: list[HashedBlock] = []
        self.offset = 0
        self._checkpoint: Multihash | None = None

    def add(self, event: MetadataEvent) -> HashedBlock:
        block = linked(self.blocks[-1] if self.blocks else None, event)
        self.blocks.append(block)
        self.source.objects[ObjectKind.BLOCK, block.hash] = block.raw
        self.source.tip = block.hash
        return block

    def play(self, names: Sequence[str]) -> DatasetMaker:
        for name in names:
            self.add(self.event(name))
        return self

    def event(self, name: str) -> MetadataEvent:
        match name:
            case "Seed":
                return seed(ID, self.kind)
            case "SetDataSchema":
                return SetDataSchema(schema=from_arrow(table(0, 1).schema))
            case "SetTransform":
                query = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),))
                source = TransformInput(dataset_ref=DatasetRef(id=INPUT), alias="input")
                return SetTransform(inputs=(source,), transform=query)
            case "AddData":
                return AddData(prev_offset=self._prev_offset, new_data=self.slice())
            case "ExecuteTransform":
                return self._execution()
        raise ValueError(name)

    @property
    def _prev_offset(self) -> int | None:
        return self.offset - 1 if self.offset else None

    def slice(self, rows: pa.Table | None = None) -> DataSlice:
        """The next slice, stored; by default of `ROWS` rows."""
        made = table(self.offset, ROWS) if rows is None else rows
        content = parquet(made, **PLAIN)
        self.source.put(ObjectKind.DATA, content)
        part = slice_of(content, made, self.offset)
        self.offset += made.num_rows
        return part

    def checkpoint(self, content: bytes) -> Checkpoint:
        self.source.put(ObjectKind.CHECKPOINT, content)
        return checkpoint_of(content)

    def _execution(self) -> ExecuteTransform:
        number, before = len(self.blocks), self.blocks[-1].event
        previous = Multihash.of(f"input {number - 1}".encode())
        first = not isinstance(before, ExecuteTransform)
        progress = ExecuteTransformInput(
            dataset_id=INPUT,
            prev_block_hash=None if first else previous,
            new_block_hash=Multihash.of(f"input {number}".encode()),
            prev_offset=None if first else number,
            new_offset=number + 1,
        )
        prev_offset, checkpoint = self._prev_offset, self.checkpoint(f"state {number}".encode())
        event = ExecuteTransform(
            query_inputs=(progress,),
            prev_checkpoint=self._checkpoint,
            prev_offset=prev_offset,
            new_data=self.slice(),
            new_checkpoint=checkpoint,
        )
        self._checkpoint = checkpoint.physical_hash
        return event


def root(source: DictSource | None = None) -> DatasetMaker:
    return DatasetMaker(source=source).play(ROOT)


def reasons(report: VerifyReport) -> list[tuple[str, int | None]]:
    return [(problem.reason, problem.sequence_number) for problem in report.problems]


def part_of(block: HashedBlock) -> Any:
    assert isinstance(block.event, AddData | ExecuteTransform)
    return block.event.new_data


def with_slice(**changes: Any) -> DatasetMaker:
    """A root whose only slice declares something else than it has."""
    made = DatasetMaker().play(ROOT[:2])
    made.add(AddData(new_data=replace(made.slice(), **changes)))
    return made


def change_object(made: DatasetMaker, number: int, kind: ObjectKind, content: Any) -> DatasetMaker:
    for named in named_objects(made.blocks[number].event):
        if named.kind is kind:
            key = (kind, named.hash)
            made.source.objects[key] = content(made.source.objects[key])
    return made


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x40]) + content[middle + 1 :]


def change_block(made: DatasetMaker, number: int, content: Any) -> DatasetMaker:
    key = (ObjectKind.BLOCK, made.blocks[number].hash)
    made.source.objects[key] = content(made.source.objects[key])
    return made
