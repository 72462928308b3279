"""Real datasets for tests: chains written by the rules, real Parquet slices, real hashes.

dataset = make_dataset(folder, rows=[10, 5])     Seed, SetDataSchema, two AddData
dataset.add_rows(3); dataset.add_info("…")       one more block each
dataset.rewind(1); dataset.fork(other_folder)    shorter, or a copy to go another way
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.chain.rules import author, fold
from odf_protocol.chain.state import EMPTY
from odf_protocol.columns.arrow_digest import logical_hash_of
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    HashedBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
)
from odf_protocol.multihash import Multihash
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKind

START = Instant.parse("2050-01-01T12:00:00Z")
MINUTE = 60 * 10**9
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("event_time", pa.timestamp("ms", "UTC")),
        pa.field("city", pa.string()),
        pa.field("population", pa.int64()),
    ]
)


@dataclass
class FolderDataset:
    """A dataset in a folder, and the chain that is in it."""

    folder: Path
    blocks: list[HashedBlock] = field(default_factory=list)

    @property
    def objects(self) -> FolderObjects:
        return FolderObjects(self.folder, durable=False)

    @property
    def head(self) -> Multihash:
        return self.blocks[-1].hash

    def append(self, *events: MetadataEvent) -> None:
        """Author events a minute after the last block and move the head."""
        state = fold(self.blocks, EMPTY)
        now = START if state.system_time is None else Instant(state.system_time.ns + MINUTE)
        new, _ = author(state, events, system_time=now)
        for block in new:
            self.objects.put(ObjectKind.BLOCK, block.hash, [block.raw])
        self.blocks += new
        self.objects.write_ref("head", self.head)

    def add_rows(self, count: int, *, checkpoint: bytes | None = None) -> None:
        """One AddData with a slice of `count` rows."""
        state = fold(self.blocks, EMPTY)
        start = 0 if state.last_offset is None else state.last_offset + 1
        content = parquet_slice(start, count)
        physical = Multihash.of(content)
        self.objects.put(ObjectKind.DATA, physical, [content])
        slice_ = DataSlice(
            logical_hash=logical_hash_of(pq.ParquetFile(io.BytesIO(content))),
            physical_hash=physical,
            offset_interval=OffsetInterval(start=start, end=start + count - 1),
            size=len(content),
        )
        self.append(
            AddData(
                prev_offset=state.last_offset,
                prev_checkpoint=state.last_checkpoint,
                new_data=slice_,
                new_checkpoint=self._checkpoint(checkpoint),
                new_watermark=Instant(START.ns + (start + count) * MINUTE),
            )
        )

    def _checkpoint(self, content: bytes | None) -> Checkpoint | None:
        if content is None:
            return None
        physical = Multihash.of(content)
        self.objects.put(ObjectKind.CHECKPOINT, physical, [content])
        return Checkpoint(physical_hash=physical, size=len(content))

    def add_info(self, text: str) -> None:
        self.append(SetInfo(description=text))

    def rewind(self, count: int) -> None:
        """The head goes back by `count` blocks; blocks stay as garbage."""
        del self.blocks[-count:]
        self.objects.write_ref("head", self.head)

    def fork(self, folder: Path) -> FolderDataset:
        """An independent copy."""
        shutil.copytree(self.folder, folder)
        return FolderDataset(folder, list(self.blocks))

    def files(self) -> dict[str, bytes]:
        """Everything that belongs to the dataset."""
        return files_of(self.folder)


def make_dataset(
    folder: Path, *, rows: Sequence[int] = (), key: int = 7, checkpoint: bytes | None = None
) -> FolderDataset:
    """Seed, SetDataSchema and one AddData per number of rows."""
    dataset = FolderDataset(folder)
    dataset.append(Seed(dataset_id=DatasetId(bytes([key] * 32)), dataset_kind=DatasetKind.Root))
    dataset.append(SetDataSchema(schema=from_arrow(SCHEMA)))
    for number, count in enumerate(rows):
        last = number == len(rows) - 1
        dataset.add_rows(count, checkpoint=checkpoint if last else None)
    return dataset


def parquet_slice(start: int, count: int) -> bytes:
    """Rows with offsets from `start`, as the bytes of a Parquet file."""
    offsets = range(start, start + count)
    millis = [START.millis + 60_000 * offset for offset in offsets]
    columns = [
        list(offsets),
        [0] * count,
        [START.millis] * count,
        millis,
        [f"city {offset}" for offset in offsets],
        [offset * 100 for offset in offsets],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), out)
    return out.getvalue()


def files_of(folder: Path) -> dict[str, bytes]:
    """Path → content of refs, blocks, data and checkpoints below a dataset folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for part in ("refs", "blocks", "data", "checkpoints")
        for path in sorted((folder / part).glob("*"))
        if not path.name.startswith(".")
    }
