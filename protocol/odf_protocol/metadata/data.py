"""Values that data events refer to: slices, checkpoints, offsets, source state.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "DataSlice", "Checkpoint", "OffsetInterval", "SourceState".
"""

from __future__ import annotations

from ..identity import DatasetId
from ..multihash import Multihash
from .table import Table


class OffsetInterval(Table, frozen=True, kw_only=True):
    """Closed interval of row numbers, from 0."""

    start: int
    end: int


class DataSlice(Table, frozen=True, kw_only=True):
    """One immutable part of the ledger: a Parquet file, its hashes, its rows. `size` in bytes."""

    logical_hash: Multihash
    physical_hash: Multihash
    offset_interval: OffsetInterval
    size: int


class Checkpoint(Table, frozen=True, kw_only=True):
    """Engine-private state, opaque, named by its physical hash. `size` in bytes."""

    physical_hash: Multihash
    size: int


class SourceState(Table, frozen=True, kw_only=True):
    """Where polling or pushing left off; advice to the fetcher."""

    source_name: str
    kind: str
    value: str


class ExecuteTransformInput(Table, frozen=True, kw_only=True):
    """What one execution consumed of one input: half-open (prev, new] in blocks and offsets."""

    dataset_id: DatasetId
    prev_block_hash: Multihash | None = None
    new_block_hash: Multihash | None = None
    prev_offset: int | None = None
    new_offset: int | None = None
