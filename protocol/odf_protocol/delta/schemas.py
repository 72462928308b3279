"""ODF schemas in the JSON form of Delta Lake and Delta Sharing.

All columns are declared nullable, because slices older than a column lack it. Source: Delta
protocol, "Schema Serialization Format".
"""

from __future__ import annotations

import json
from typing import Any

from ..columns.column_names import texts_of
from ..metadata import schema as odf
from ..metadata.schema import DataField, DataSchema, DataType

_MOST_DIGITS = 38
_SAME: dict[type, str] = {
    odf.DataTypeBool: "boolean",
    odf.DataTypeInt8: "byte",
    odf.DataTypeInt16: "short",
    odf.DataTypeInt32: "integer",
    odf.DataTypeInt64: "long",
    odf.DataTypeFloat32: "float",
    odf.DataTypeFloat64: "double",
    odf.DataTypeString: "string",
    odf.DataTypeDate: "date",
    odf.DataTypeDuration: "long",
}
_NEAREST: dict[type, str] = {
    odf.DataTypeUInt8: "short",
    odf.DataTypeUInt16: "integer",
    odf.DataTypeUInt32: "long",
    odf.DataTypeUInt64: "decimal(20,0)",
    odf.DataTypeFloat16: "float",
    odf.DataTypeTime: "string",
    odf.DataTypeNull: "string",
}
"""Substitutes for types that Delta does not have. Readers of plain Parquet files use the type in
the file; readers of Delta refuse such a column."""
LOCAL_TIME = "timestamp_ntz"


class DeltaSchema:
    """A schema in JSON, with facts about it that readers need."""

    def __init__(self, schema: DataSchema | None, *, plain: bool = False) -> None:
        """`plain` is for readers of plain Parquet files, which have no local times."""
        self.foreign: list[str] = []
        """Columns that a reader of Delta cannot read because of their type."""
        self.has_local_times = False
        self._plain, self._column = plain, ""
        fields = () if schema is None else schema.fields
        told = [self._field(field, is_column=True) for field in fields]
        whole = {"type": "struct", "fields": told}
        self.text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)

    def _field(self, field: DataField, *, is_column: bool = False) -> dict[str, Any]:
        if is_column:
            self._column = field.name
        told = self._type(field.type)
        comment = texts_of(field).line
        metadata = {"comment": comment} if comment else {}
        return {"name": field.name, "type": told, "nullable": True, "metadata": metadata}

    def _type(self, data_type: DataType) -> Any:
        match data_type:
            case odf.DataTypeOption(inner=inner):
                return self._type(inner)
            case odf.DataTypeDecimal(precision=precision, scale=scale):
                if precision > _MOST_DIGITS:
                    return self._foreign("string")
                return f"decimal({precision},{scale})"
            case odf.DataTypeTimestamp(timezone="") if not self._plain:
                self.has_local_times = True
                return LOCAL_TIME
            case odf.DataTypeTimestamp():
                return "timestamp"
            case odf.DataTypeBinary(fixed_length=length):
                return "binary" if length is None else self._foreign("binary")
            case odf.DataTypeList(item_type=item):
                return {"type": "array", "elementType": self._type(item), "containsNull": True}
            case odf.DataTypeMap(key_type=key, value_type=value):
                return {
                    "type": "map",
                    "keyType": self._type(key),
                    "valueType": self._type(value),
                    "valueContainsNull": True,
                }
            case odf.DataTypeStruct(fields=fields):
                return {"type": "struct", "fields": [self._field(each) for each in fields]}
        return _SAME.get(type(data_type)) or self._foreign(_NEAREST[type(data_type)])

    def _foreign(self, nearest: str) -> str:
        if self._column not in self.foreign:
            self.foreign.append(self._column)
        return nearest
