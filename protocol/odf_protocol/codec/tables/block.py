"""Blocks and snapshots: the tables of `odf_protocol/metadata/block.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
    "DatasetSnapshot": (
        Field("name", "dataset_alias", required=True),
        Field("kind", "enum", "DatasetKind", required=True),
        Field("metadata", "[union]", "MetadataEvent", required=True),
    ),
    "MetadataBlock": (
        Field("system_time", "timestamp", required=True),
        Field("prev_block_hash", "multihash"),
        Field("sequence_number", "u64", required=True),
        Field("event", "union", "MetadataEvent", required=True),
    ),
}
