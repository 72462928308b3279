"""The ODF schema and its data types: the tables of `odf_protocol/metadata/schema.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
    "DataTypeBinary": (Field("fixed_length", "u64"),),
    "DataTypeBool": (),
    "DataTypeDate": (),
    "DataTypeDecimal": (
        Field("precision", "u32", required=True),
        Field("scale", "i32", required=True),
    ),
    "DataTypeDuration": (Field("unit", "enum", "TimeUnit"),),
    "DataTypeFloat16": (),
    "DataTypeFloat32": (),
    "DataTypeFloat64": (),
    "DataTypeInt8": (),
    "DataTypeInt16": (),
    "DataTypeInt32": (),
    "DataTypeInt64": (),
    "DataTypeUInt8": (),
    "DataTypeUInt16": (),
    "DataTypeUInt32": (),
    "DataTypeUInt64": (),
    "DataTypeList": (
        Field("item_type", "union", "DataType", required=True),
        Field("fixed_length", "u64"),
    ),
    "DataTypeMap": (
        Field("key_type", "union", "DataType", required=True),
        Field("value_type", "union", "DataType", required=True),
        Field("keys_sorted", "bool"),
    ),
    "DataTypeNull": (),
    "DataTypeOption": (Field("inner", "union", "DataType", required=True),),
    "DataTypeStruct": (Field("fields", "[table]", "DataField", required=True),),
    "DataTypeTime": (Field("unit", "enum", "TimeUnit"),),
    "DataTypeTimestamp": (
        Field("unit", "enum", "TimeUnit"),
        Field("timezone", "string"),
    ),
    "DataTypeString": (),
    "DataField": (
        Field("name", "string", required=True),
        Field("type", "union", "DataType", required=True),
        Field("extra", "attributes"),
    ),
    "DataSchema": (
        Field("fields", "[table]", "DataField", required=True),
        Field("extra", "attributes"),
    ),
}
