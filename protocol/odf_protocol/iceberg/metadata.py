"""The metadata of a table: its schemas, its snapshots, and the paths of their manifest lists.

Source: Iceberg table specification, "Table metadata fields", "Snapshots", version 2 of the format.

ODF schemas of a chain in the form of Iceberg, where each column has an id that never changes.

Ids are assigned in the order in which the schemas of the chain first name columns, an outer level
before the levels inside it, so they depend only on the chain. No column is required, because slices
older than a column lack it. Source: Iceberg table specification, "Schemas and data types",
"Column projection", "Name mapping serialization".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..columns.column_ids import ColumnIds, Path, number_columns
from ..columns.column_names import texts_of
from ..metadata import schema as odf
from ..metadata.schema import DataField, DataSchema, DataType
from ..multihash import Multihash

_MOST_DIGITS = 38
_SAME: dict[type, str] = {
    odf.DataTypeBool: "boolean",
    odf.DataTypeInt8: "int",
    odf.DataTypeInt16: "int",
    odf.DataTypeInt32: "int",
    odf.DataTypeInt64: "long",
    odf.DataTypeUInt8: "int",
    odf.DataTypeUInt16: "int",
    odf.DataTypeFloat32: "float",
    odf.DataTypeFloat64: "double",
    odf.DataTypeString: "string",
    odf.DataTypeDate: "date",
    odf.DataTypeDuration: "long",
}
"""Types of one form. Unsigned numbers of 32 and 64 bits have none: where a file has them, pyiceberg
leaves out rows when it filters by values beyond the largest of 32 bits, and no client takes the
upper half of 64 bits as a `long`."""
_LOCAL = ""
"""Time zone of timestamps without a zone."""


class IcebergSchema:
    """One schema of a table."""

    def __init__(self, number: int, fields: list[dict[str, Any]], foreign: list[str]) -> None:
        self.number, self.fields, self.foreign = number, fields, foreign
        """`foreign` are columns with a type that clients of Iceberg do not read as it is."""

    @property
    def told(self) -> dict[str, Any]:
        return {"type": "struct", "schema-id": self.number, "fields": self.fields}

    def column(self, name: str) -> tuple[int, str] | None:
        """Return id and type of a column with a primitive type; None for other columns."""
        for field in self.fields:
            if field["name"] == name and isinstance(field["type"], str):
                return field["id"], field["type"]
        return None


class IcebergSchemas:
    """The schemas of a chain, whose columns share one numbering."""

    def __init__(self, schemas: Sequence[DataSchema]) -> None:
        """`schemas` are in the order of the chain, oldest first."""
        self._ids: ColumnIds = {}
        self._foreign: list[str] = []
        self.all: list[IcebergSchema] = []
        for number, schema in enumerate(schemas):
            number_columns(self._ids, schema.fields)
            self._foreign = []
            fields = self._fields((), schema.fields)
            self.all.append(IcebergSchema(number, fields, self._foreign))

    @property
    def last_id(self) -> int:
        """The largest assigned id."""
        return len(self._ids)

    def mapping(self, schema: IcebergSchema) -> list[dict[str, Any]]:
        """Return the name mapping, by which readers find columns of files, which have no ids."""
        return [_mapped(each) for each in schema.fields]

    def _fields(self, path: Path, fields: Sequence[DataField]) -> list[dict[str, Any]]:
        return [
            {
                "id": self._ids[*path, each.name],
                "name": each.name,
                "required": False,
                "type": self._type((*path, each.name), each.type),
                **({"doc": said.line} if (said := texts_of(each)) else {}),
            }
            for each in fields
        ]

    def _type(self, path: Path, data_type: DataType) -> Any:
        match data_type:
            case odf.DataTypeOption(inner=inner):
                return self._type(path, inner)
            case odf.DataTypeDecimal(precision=precision, scale=scale) if precision <= _MOST_DIGITS:
                return f"decimal({precision}, {scale})"
            case odf.DataTypeTimestamp(timezone=zone):
                return "timestamp" if zone == _LOCAL else "timestamptz"
            case odf.DataTypeTime(unit=odf.TimeUnit.Microsecond):
                return "time"  # the only unit of Iceberg; pyiceberg refuses files with another
            case odf.DataTypeBinary(fixed_length=length):
                return "binary" if length is None else f"fixed[{length}]"
            case odf.DataTypeStruct(fields=fields):
                return {"type": "struct", "fields": self._fields(path, fields)}
            case odf.DataTypeList():
                return {"type": "list", **self._inner(path, "element", data_type.item_type)}
            case odf.DataTypeMap(key_type=key, value_type=value):
                told = self._inner(path, "key", key) | self._inner(path, "value", value)
                del told["key-required"]  # keys are always required
                return {"type": "map", **told}
        return _SAME.get(type(data_type)) or self._without_type(path[0])

    def _inner(self, path: Path, name: str, data_type: DataType) -> dict[str, Any]:
        inside = (*path, name)
        told = self._type(inside, data_type)
        return {f"{name}-id": self._ids[inside], name: told, f"{name}-required": False}

    def _without_type(self, column: str) -> str:
        if column not in self._foreign:
            self._foreign.append(column)
        return "string"


def _mapped(field: dict[str, Any]) -> dict[str, Any]:
    told = {"field-id": field["id"], "names": [field["name"]]}
    inside = [_mapped(each) for each in _children(field["type"])]
    return told | ({"fields": inside} if inside else {})


def _children(told: Any) -> list[dict[str, Any]]:
    """Return the fields inside of a type in its JSON form."""
    if isinstance(told, str):
        return []
    if told["type"] == "struct":
        fields: list[dict[str, Any]] = told["fields"]
        return fields
    names = ("element",) if told["type"] == "list" else ("key", "value")
    return [{"id": told[f"{name}-id"], "name": name, "type": told[name]} for name in names]


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
