"""Data and checkpoints that blocks refer to: the tables of `odf_protocol/metadata/data.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
    "OffsetInterval": (
        Field("start", "u64", required=True),
        Field("end", "u64", required=True),
    ),
    "DataSlice": (
        Field("logical_hash", "multihash", required=True),
        Field("physical_hash", "multihash", required=True),
        Field("offset_interval", "table", "OffsetInterval", required=True),
        Field("size", "u64", required=True),
    ),
    "Checkpoint": (
        Field("physical_hash", "multihash", required=True),
        Field("size", "u64", required=True),
    ),
    "SourceState": (
        Field("source_name", "string", required=True),
        Field("kind", "string", required=True),
        Field("value", "string", required=True),
    ),
    "ExecuteTransformInput": (
        Field("dataset_id", "dataset_id", required=True),
        Field("prev_block_hash", "multihash"),
        Field("new_block_hash", "multihash"),
        Field("prev_offset", "u64"),
        Field("new_offset", "u64"),
    ),
}
