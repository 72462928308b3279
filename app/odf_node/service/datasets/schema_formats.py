"""Schemas, written in the five formats that clients can request.

    ArrowJson    as the Rust implementation of Arrow serializes a schema
    OdfJson      the ODF schema; OdfYaml the same as text
    Parquet      the message type of a Parquet file as text; ParquetJson the same as JSON

Source: reference node, "schemaFormat" parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from odf_protocol.codec.manifests import to_data, to_yaml
from odf_protocol.errors import BadInput
from odf_protocol.metadata.schema import DataSchema

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_PARQUET_UNITS = {"ms": "MILLIS", "us": "MICROS", "ns": "NANOS"}
"""Parquet has no unit for seconds, so times in seconds get no logical type."""


class SchemaFormat(StrEnum):
    """Formats of a schema. Values are the canonical names, which responses contain."""

    ARROW_JSON = "ArrowJson"
    ODF_JSON = "OdfJson"
    ODF_YAML = "OdfYaml"
    PARQUET = "Parquet"
    PARQUET_JSON = "ParquetJson"


def parse_format(text: str, formats: type[StrEnum]) -> Any:
    """Return the member with this name, in canonical form, lower case or kebab case. Raises
    `UnknownFormat`."""
    wanted = text.replace("-", "").lower()
    for member in formats:
        if member.value.lower() == wanted:
            return member
    known = ", ".join(member.value for member in formats)
    raise BadInput("UnknownFormat", f"unknown format {text[:50]!r}; known are {known}")


def written(schema: DataSchema, form: SchemaFormat) -> Any:
    """Return the schema as a JSON value (a text for `OdfYaml` and `Parquet`)."""
    return _WRITERS[form](schema)


def _arrow(schema: DataSchema) -> pa.Schema:
    from odf_protocol.columns.arrow_schema import to_arrow

    return to_arrow(schema)


def _arrow_json(schema: DataSchema) -> dict[str, Any]:
    return {"fields": [arrow_field(field) for field in _arrow(schema)], "metadata": {}}


def arrow_field(field: pa.Field) -> dict[str, Any]:
    """Return one field in the form of Arrow's Rust implementation."""
    return {
        "name": field.name,
        "data_type": _arrow_type(field.type),
        "nullable": field.nullable,
        "dict_id": 0,
        "dict_is_ordered": False,
        "metadata": {},
    }


def _arrow_type(kind: pa.DataType) -> Any:
    from pyarrow import types

    for is_kind, write in (
        (types.is_timestamp, lambda t: {"Timestamp": [_UNITS[t.unit], t.tz]}),
        (types.is_time32, lambda t: {"Time32": _UNITS[t.unit]}),
        (types.is_time64, lambda t: {"Time64": _UNITS[t.unit]}),
        (types.is_duration, lambda t: {"Duration": _UNITS[t.unit]}),
        (types.is_decimal256, lambda t: {"Decimal256": [t.precision, t.scale]}),
        (types.is_decimal, lambda t: {"Decimal128": [t.precision, t.scale]}),
        (types.is_fixed_size_binary, lambda t: {"FixedSizeBinary": t.byte_width}),
        (types.is_struct, lambda t: {"Struct": [arrow_field(t.field(i)) for i in _indexes(t)]}),
        (types.is_map, lambda t: {"Map": [_entries(t), t.keys_sorted]}),
        (types.is_fixed_size_list, lambda t: {"FixedSizeList": [_item(t), t.list_size]}),
        (types.is_large_list, lambda t: {"LargeList": _item(t)}),
        (types.is_list, lambda t: {"List": _item(t)}),
    ):
        if is_kind(kind):
            return write(kind)
    return _PLAIN_ARROW.get(str(kind), str(kind))


_PLAIN_ARROW = {
    **{name.lower(): name for name in ("Int8", "Int16", "Int32", "Int64", "Binary", "Null")},
    **{name.lower(): name for name in ("UInt8", "UInt16", "UInt32", "UInt64")},
    "bool": "Boolean",
    "halffloat": "Float16",
    "float": "Float32",
    "double": "Float64",
    "string": "Utf8",
    "large_string": "LargeUtf8",
    "string_view": "Utf8View",
    "large_binary": "LargeBinary",
    "binary_view": "BinaryView",
    "date32[day]": "Date32",
    "date64[ms]": "Date64",
}


def _indexes(kind: Any) -> range:
    return range(kind.num_fields)


def _item(kind: Any) -> dict[str, Any]:
    return arrow_field(kind.value_field)


def _entries(kind: Any) -> dict[str, Any]:
    pair = [arrow_field(kind.key_field), arrow_field(kind.item_field)]
    return {
        "name": "entries",
        "data_type": {"Struct": pair},
        "nullable": False,
        "dict_id": 0,
        "dict_is_ordered": False,
        "metadata": {},
    }


def _odf_json(schema: DataSchema) -> Any:
    return to_data(schema)


def _odf_yaml(schema: DataSchema) -> str:
    return to_yaml(to_data(schema))


def _parquet_json(schema: DataSchema) -> dict[str, Any]:
    fields = [_parquet_field(field) for field in _arrow(schema)]
    return {"name": "arrow_schema", "type": "struct", "fields": fields}


def _parquet_field(field: pa.Field) -> dict[str, Any]:
    """Return one column: its repetition, and its physical and logical type or its members."""
    from pyarrow import types

    shown: dict[str, Any] = {
        "name": field.name,
        "repetition": "OPTIONAL" if field.nullable else "REQUIRED",
    }
    kind = field.type
    if types.is_struct(kind):
        members = [_parquet_field(kind.field(i)) for i in _indexes(kind)]
        return {**shown, "type": "struct", "fields": members}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _parquet_field(kind.value_field.with_name("element"))
        repeated = {"name": "list", "repetition": "REPEATED", "type": "struct", "fields": [item]}
        return {**shown, "type": "struct", "logicalType": "LIST", "fields": [repeated]}
    if types.is_map(kind):
        pair = [
            _parquet_field(kind.key_field.with_name("key")),
            _parquet_field(kind.item_field.with_name("value")),
        ]
        repeated = {"name": "key_value", "repetition": "REPEATED", "type": "struct", "fields": pair}
        return {**shown, "type": "struct", "logicalType": "MAP", "fields": [repeated]}
    physical, logical = _parquet_type(kind)
    return {**shown, "type": physical} | ({"logicalType": logical} if logical else {})


def _parquet_type(kind: Any) -> tuple[str, str | None]:
    from pyarrow import types

    if types.is_timestamp(kind) or types.is_time(kind):
        name = "TIME" if types.is_time(kind) else "TIMESTAMP"
        utc = "true" if name == "TIMESTAMP" and kind.tz else "false"
        unit = _PARQUET_UNITS.get(kind.unit)
        logical = None if unit is None else f"{name}({unit},{utc})"
        return "INT32" if types.is_time32(kind) else "INT64", logical
    if types.is_decimal(kind):
        logical = f"DECIMAL({kind.precision},{kind.scale})"
        wide = "FIXED_LEN_BYTE_ARRAY"
        physical = "INT32" if kind.precision < 10 else "INT64" if kind.precision < 19 else wide
        return physical, logical
    if types.is_fixed_size_binary(kind):
        return "FIXED_LEN_BYTE_ARRAY", None
    return _PLAIN_PARQUET.get(_PLAIN_ARROW.get(str(kind), ""), ("INT64", None))


_PLAIN_PARQUET: dict[str, tuple[str, str | None]] = {
    "Boolean": ("BOOLEAN", None),
    "Null": ("INT32", "UNKNOWN"),
    "Int8": ("INT32", "INTEGER(8,true)"),
    "Int16": ("INT32", "INTEGER(16,true)"),
    "Int32": ("INT32", None),
    "Int64": ("INT64", None),
    "UInt8": ("INT32", "INTEGER(8,false)"),
    "UInt16": ("INT32", "INTEGER(16,false)"),
    "UInt32": ("INT32", "INTEGER(32,false)"),
    "UInt64": ("INT64", "INTEGER(64,false)"),
    "Float16": ("FIXED_LEN_BYTE_ARRAY", "FLOAT16"),
    "Float32": ("FLOAT", None),
    "Float64": ("DOUBLE", None),
    "Utf8": ("BYTE_ARRAY", "STRING"),
    "LargeUtf8": ("BYTE_ARRAY", "STRING"),
    "Utf8View": ("BYTE_ARRAY", "STRING"),
    "Binary": ("BYTE_ARRAY", None),
    "LargeBinary": ("BYTE_ARRAY", None),
    "BinaryView": ("BYTE_ARRAY", None),
    "Date32": ("INT32", "DATE"),
    "Date64": ("INT64", None),
}


def _parquet_text(schema: DataSchema) -> str:
    tree = _parquet_json(schema)
    lines = [line for field in tree["fields"] for line in _parquet_lines(field, 1)]
    return "\n".join([f"message {tree['name']} {{", *lines, "}", ""])


def _parquet_lines(field: dict[str, Any], depth: int) -> list[str]:
    indent = "  " * depth
    logical = f" ({field['logicalType']})" if "logicalType" in field else ""
    if "fields" not in field:
        return [f"{indent}{field['repetition']} {field['type']} {field['name']}{logical};"]
    inner = [line for member in field["fields"] for line in _parquet_lines(member, depth + 1)]
    opening = f"{indent}{field['repetition']} group {field['name']}{logical} {{"
    return [opening, *inner, f"{indent}}}"]


_WRITERS: dict[SchemaFormat, Callable[[DataSchema], Any]] = {
    SchemaFormat.ARROW_JSON: _arrow_json,
    SchemaFormat.ODF_JSON: _odf_json,
    SchemaFormat.ODF_YAML: _odf_yaml,
    SchemaFormat.PARQUET: _parquet_text,
    SchemaFormat.PARQUET_JSON: _parquet_json,
}
