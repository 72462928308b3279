"""The metadata of a table: its schemas, its snapshots, and the paths of their manifest lists.

Source: Iceberg table specification, "Table metadata fields", "Snapshots", version 2 of the format.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..multihash import Multihash
from .schemas import IcebergSchema, IcebergSchemas

MAPPING = "schema.name-mapping.default"
_MOST_PARTITION_ID = 999
"""Ids of partition columns begin after it; tables here have no partition columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A version of a table."""

    id: int
    parent: int | None
    sequence: int
    """Sequence number, from 1."""
    made_ms: int
    manifests: str
    """Path of its manifest list."""
    schema: int
    block: str
    only_adds: bool

    @property
    def told(self) -> dict[str, Any]:
        operation = "append" if self.only_adds else "overwrite"
        parent = {} if self.parent is None else {"parent-snapshot-id": self.parent}
        return {
            "snapshot-id": self.id,
            **parent,
            "sequence-number": self.sequence,
            "timestamp-ms": self.made_ms,
            "manifest-list": self.manifests,
            "summary": {"operation": operation, "odf.block": self.block},
            "schema-id": self.schema,
        }


def snapshot_id(block: Multihash) -> int:
    """Return a positive 63-bit number for a block; blocks of one chain have different numbers."""
    return int.from_bytes(block.digest[:8], "big") >> 1 or 1


def table_metadata(
    *,
    identity: str,
    location: str,
    created_ms: int,
    schemas: IcebergSchemas,
    shown: Sequence[IcebergSchema],
    snapshots: Sequence[Snapshot],
    properties: dict[str, str],
) -> dict[str, Any]:
    """Return the metadata as JSON. The last of `shown` and the last snapshot are the newest."""
    newest = snapshots[-1] if snapshots else None
    current = shown[-1]
    mapping = schemas.mapping(current)
    return {
        "format-version": 2,
        "table-uuid": identity,
        "location": location,
        "last-sequence-number": newest.sequence if newest else 0,
        "last-updated-ms": newest.made_ms if newest else created_ms,
        "last-column-id": schemas.last_id,
        "schemas": [each.told for each in shown],
        "current-schema-id": current.number,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": _MOST_PARTITION_ID,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {
            MAPPING: json.dumps(mapping, separators=(",", ":"), ensure_ascii=False),
            **properties,
        },
        "current-snapshot-id": newest.id if newest else -1,
        "refs": {"main": {"snapshot-id": newest.id, "type": "branch"}} if newest else {},
        "snapshots": [each.told for each in snapshots],
        "snapshot-log": [
            {"timestamp-ms": each.made_ms, "snapshot-id": each.id} for each in snapshots
        ],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }
