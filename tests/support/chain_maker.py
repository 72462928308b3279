"""Small chains for tests: ids, entries, blocks, and slices that fit them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.codec.blocks import encode_block
from odf_protocol.columns.arrow_digest import logical_hash
from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    HashedBlock,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetInfo,
)
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import DatasetEntry, Visibility

NOON = Instant.parse("2026-01-01T12:00:00Z")


def some_id(name: str = "a") -> DatasetId:
    """A dataset id that depends on the name only."""
    return DatasetId(hashlib.sha256(name.encode()).digest())


def entry(
    alias: str = "kamu/foo",
    *,
    dataset: DatasetId | None = None,
    kind: DatasetKind = DatasetKind.Root,
) -> DatasetEntry:
    parsed = DatasetAlias.parse(alias)
    return DatasetEntry(dataset or some_id(alias.lower()), parsed, kind, Visibility.PRIVATE, NOON)


def seed(dataset: DatasetId, kind: DatasetKind = DatasetKind.Root) -> Seed:
    return Seed(dataset_id=dataset, dataset_kind=kind)


def infos(*texts: str) -> list[MetadataEvent]:
    return [SetInfo(description=text) for text in texts]


def chain(
    dataset: DatasetId, events: Sequence[MetadataEvent] = (), *, at: Instant = NOON
) -> tuple[list[HashedBlock], ChainState]:
    """A Seed and the events behind it."""
    return author(EMPTY, [seed(dataset), *events], system_time=at)


def linked(prev: HashedBlock | None, event: MetadataEvent, *, at: Instant = NOON) -> HashedBlock:
    """A block behind `prev`, whether or not it keeps the rules."""
    return encode_block(
        MetadataBlock(
            system_time=at,
            prev_block_hash=prev.hash if prev is not None else None,
            sequence_number=prev.sequence_number + 1 if prev is not None else 0,
            event=event,
        )
    )


def long_chain(dataset: DatasetId, length: int, *, mark: str = "") -> list[HashedBlock]:
    """`length` blocks, Seed included; quick, as no rule is run."""
    blocks = [linked(None, seed(dataset))]
    while len(blocks) < length:
        blocks.append(linked(blocks[-1], SetInfo(description=f"{mark}{len(blocks)}")))
    return blocks


def table(start: int, rows: int, *, value: str = "x") -> pa.Table:
    """Rows with the system columns of a root and one text column."""
    when = pa.array([NOON.millis] * rows, pa.timestamp("ms", "UTC"))
    return pa.table(
        {
            "offset": pa.array(range(start, start + rows), pa.int64()),
            "op": pa.array([0] * rows, pa.int32()),
            "system_time": when,
            "event_time": when,
            "text": pa.array([f"{value}{number}" for number in range(rows)], pa.string()),
        }
    )


def parquet(rows: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out, **options)
    return out.getvalue()


def slice_of(content: bytes, rows: pa.Table, start: int) -> DataSlice:
    """What a block has to declare of a slice."""
    return DataSlice(
        logical_hash=logical_hash(rows.to_batches(), rows.schema),
        physical_hash=Multihash.of(content),
        offset_interval=OffsetInterval(start=start, end=start + rows.num_rows - 1),
        size=len(content),
    )


def checkpoint_of(content: bytes) -> Checkpoint:
    return Checkpoint(physical_hash=Multihash.of(content), size=len(content))


def add_data(part: DataSlice, *, prev: int | None = None) -> AddData:
    return AddData(prev_offset=prev, new_data=part)
