"""A dataset as of one block as a Kartothek dataset whose name is the hash of the block.

Its files are computed from the chain, and never change. It is a changelog without indices. Its data
files are the unchanged slices, except slices that are older than a column: those need completing,
since readers fail on a missing column when they filter by it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.kartothek.keys import TABLE, data_key, schema_key, state_keys
from odf_protocol.kartothek.schema import encode_schema, table_schema
from odf_protocol.kartothek.state import State, encode_json
from odf_protocol.multihash import Multihash

from ..dataset.dataset import Dataset
from .chain_slices import ChainSlice, chain_view
from .parts import EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenDataset:
    """The files and the slices of the dataset, by key."""

    files: dict[str, bytes]
    slices: dict[str, Multihash]
    incomplete: frozenset[str]
    """Keys of slices that lack columns of the schema."""
    schema: pa.Schema
    raw_schema: bytes


def frozen_dataset(dataset: Dataset, at: Multihash) -> FrozenDataset:
    """Return the dataset as of a block. Raise `BlockNotFound`, `UnsupportedColumn`."""
    chain = chain_view(dataset, at)
    uuid = str(at)
    schema = table_schema(chain.schema)
    slices = {data_key(uuid, _label(each)): each.data.physical_hash for each in chain.slices}
    raw_schema = encode_schema(schema)
    incomplete = [data_key(uuid, _label(each)) for each in chain.slices if not each.is_current]
    files = {schema_key(uuid, TABLE): raw_schema}
    if not slices:
        files[data_key(uuid, EMPTY)] = _no_rows(schema)
    keys = [*slices] or [data_key(uuid, EMPTY)]
    prefix, suffix = data_key(uuid, "\0").split("\0")
    state = State(
        uuid=uuid,
        partitions={key.removeprefix(prefix).removesuffix(suffix): {TABLE: key} for key in keys},
        metadata={
            "creation_time": chain.head.block.system_time.to_datetime()
            .replace(tzinfo=None)
            .isoformat(),
            "odf.dataset-id": str(dataset.id),
            "odf.head": uuid,
            "odf.sequence-number": str(chain.head.sequence_number),
            "odf.mode": "changelog",
        },
    )
    files[state_keys(uuid)[0]] = encode_json(state)
    return FrozenDataset(
        files=files,
        slices=slices,
        incomplete=frozenset(incomplete),
        schema=schema,
        raw_schema=raw_schema,
    )


def _label(each: ChainSlice) -> str:
    return f"b{each.sequence:08}"


def _no_rows(schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(schema.empty_table(), sink, compression="snappy", version="2.6")
    return sink.getvalue()
