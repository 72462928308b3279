"""The wire model as data: the fields of every table in slot order, every union, every enum.

Slots follow from the
order: a field takes one slot, a union two (discriminator, then offset). Optional scalars are
written whenever they are set; required scalars are left out if they are zero. The interpreter in
`encode.py` and `decode.py` knows the wires of `Wire` and nothing about any single table.
Source: ODF FlatBuffers schemas up to the newest a reference peer writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Wire = Literal[
    "u64",
    "u32",
    "i64",
    "i32",
    "i16",
    "bool",
    "enum",
    "string",
    "bytes",
    "multihash",
    "dataset_id",
    "dataset_ref",
    "dataset_alias",
    "timestamp",
    "attributes",
    "table",
    "union",
    "[string]",
    "[table]",
    "[union]",
]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name in the model, its encoding, and the type it refers to, if any."""

    name: str
    wire: Wire
    of: str | None = None
    required: bool = False


Tables = dict[str, tuple[Field, ...]]
"""Fields in slot order, by the name of their table."""


TABLES: Tables = {
    # Data and checkpoints that blocks refer to
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
    # The ODF schema and its data types
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
    # Read steps and merge strategies
    "ReadStepCsv": (
        Field("ddl_schema", "[string]"),
        Field("separator", "string"),
        Field("encoding", "string"),
        Field("quote", "string"),
        Field("escape", "string"),
        Field("header", "bool"),
        Field("infer_schema", "bool"),
        Field("null_value", "string"),
        Field("date_format", "string"),
        Field("timestamp_format", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepGeoJson": (
        Field("ddl_schema", "[string]"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepEsriShapefile": (
        Field("ddl_schema", "[string]"),
        Field("sub_path", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepParquet": (
        Field("ddl_schema", "[string]"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepJson": (
        Field("sub_path", "string"),
        Field("ddl_schema", "[string]"),
        Field("date_format", "string"),
        Field("encoding", "string"),
        Field("timestamp_format", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepNdJson": (
        Field("ddl_schema", "[string]"),
        Field("date_format", "string"),
        Field("encoding", "string"),
        Field("timestamp_format", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepNdGeoJson": (
        Field("ddl_schema", "[string]"),
        Field("schema", "table", "DataSchema"),
    ),
    "MergeStrategyAppend": (),
    "MergeStrategyLedger": (Field("primary_key", "[string]", required=True),),
    "MergeStrategySnapshot": (
        Field("primary_key", "[string]", required=True),
        Field("compare_columns", "[string]"),
    ),
    "MergeStrategyChangelogStream": (Field("primary_key", "[string]", required=True),),
    "MergeStrategyUpsertStream": (Field("primary_key", "[string]", required=True),),
    # Transforms and their inputs
    "SqlQueryStep": (
        Field("alias", "string"),
        Field("query", "string", required=True),
    ),
    "TemporalTable": (
        Field("name", "string", required=True),
        Field("primary_key", "[string]", required=True),
    ),
    "TransformSql": (
        Field("engine", "string", required=True),
        Field("version", "string"),
        Field("query", "string"),
        Field("queries", "[table]", "SqlQueryStep"),
        Field("temporal_tables", "[table]", "TemporalTable"),
    ),
    "TransformInput": (
        Field("dataset_ref", "dataset_ref", required=True),
        Field("alias", "string"),
    ),
    # Polling sources
    "EventTimeSourceFromMetadata": (),
    "EventTimeSourceFromPath": (
        Field("pattern", "string", required=True),
        Field("timestamp_format", "string"),
    ),
    "EventTimeSourceFromSystemTime": (),
    "SourceCachingForever": (),
    "RequestHeader": (
        Field("name", "string", required=True),
        Field("value", "string", required=True),
    ),
    "FetchStepUrl": (
        Field("url", "string", required=True),
        Field("event_time", "union", "EventTimeSource"),
        Field("cache", "union", "SourceCaching"),
        Field("headers", "[table]", "RequestHeader"),
    ),
    "FetchStepFilesGlob": (
        Field("path", "string", required=True),
        Field("event_time", "union", "EventTimeSource"),
        Field("cache", "union", "SourceCaching"),
        Field("order", "enum", "SourceOrdering"),
    ),
    "EnvVar": (
        Field("name", "string", required=True),
        Field("value", "string"),
    ),
    "FetchStepContainer": (
        Field("image", "string", required=True),
        Field("command", "[string]"),
        Field("args", "[string]"),
        Field("env", "[table]", "EnvVar"),
    ),
    "MqttTopicSubscription": (
        Field("path", "string", required=True),
        Field("qos", "enum", "MqttQos"),
    ),
    "FetchStepMqtt": (
        Field("host", "string", required=True),
        Field("port", "i32", required=True),
        Field("username", "string"),
        Field("password", "string"),
        Field("topics", "[table]", "MqttTopicSubscription", required=True),
    ),
    "FetchStepEthereumLogs": (
        Field("chain_id", "u64"),
        Field("node_url", "string"),
        Field("filter", "string"),
        Field("signature", "string"),
    ),
    "PrepStepDecompress": (
        Field("format", "enum", "CompressionFormat", required=True),
        Field("sub_path", "string"),
    ),
    "PrepStepPipe": (Field("command", "[string]", required=True),),
    # The events of the metadata chain
    "AddData": (
        Field("prev_checkpoint", "multihash"),
        Field("prev_offset", "u64"),
        Field("new_data", "table", "DataSlice"),
        Field("new_checkpoint", "table", "Checkpoint"),
        Field("new_watermark", "timestamp"),
        Field("new_source_state", "table", "SourceState"),
        Field("extra", "attributes"),
    ),
    "AddPushSource": (
        Field("source_name", "string", required=True),
        Field("read", "union", "ReadStep", required=True),
        Field("preprocess", "union", "Transform"),
        Field("merge", "union", "MergeStrategy", required=True),
    ),
    "AttachmentEmbedded": (
        Field("path", "string", required=True),
        Field("content", "string", required=True),
    ),
    "AttachmentsEmbedded": (Field("items", "[table]", "AttachmentEmbedded", required=True),),
    "ExecuteTransform": (
        Field("query_inputs", "[table]", "ExecuteTransformInput", required=True),
        Field("prev_checkpoint", "multihash"),
        Field("prev_offset", "u64"),
        Field("new_data", "table", "DataSlice"),
        Field("new_checkpoint", "table", "Checkpoint"),
        Field("new_watermark", "timestamp"),
    ),
    "Seed": (
        Field("dataset_id", "dataset_id", required=True),
        Field("dataset_kind", "enum", "DatasetKind", required=True),
    ),
    "SetPollingSource": (
        Field("fetch", "union", "FetchStep", required=True),
        Field("prepare", "[union]", "PrepStep"),
        Field("read", "union", "ReadStep", required=True),
        Field("preprocess", "union", "Transform"),
        Field("merge", "union", "MergeStrategy", required=True),
    ),
    "SetTransform": (
        Field("inputs", "[table]", "TransformInput", required=True),
        Field("transform", "union", "Transform", required=True),
    ),
    "SetVocab": (
        Field("offset_column", "string"),
        Field("operation_type_column", "string"),
        Field("system_time_column", "string"),
        Field("event_time_column", "string"),
    ),
    "SetAttachments": (Field("attachments", "union", "Attachments", required=True),),
    "SetInfo": (
        Field("description", "string"),
        Field("keywords", "[string]"),
    ),
    "SetLicense": (
        Field("short_name", "string", required=True),
        Field("name", "string", required=True),
        Field("spdx_id", "string"),
        Field("website_url", "string", required=True),
    ),
    "SetDataSchema": (
        Field("raw_arrow_schema", "bytes"),
        Field("schema", "table", "DataSchema"),
    ),
    "DisablePushSource": (Field("source_name", "string", required=True),),
    "DisablePollingSource": (),
    # Blocks and snapshots
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
    # Messages between a coordinator and an engine
    "DatasetVocabulary": (
        Field("offset_column", "string"),
        Field("operation_type_column", "string"),
        Field("system_time_column", "string"),
        Field("event_time_column", "string"),
    ),
    "RawQueryRequest": (
        Field("input_data_paths", "[string]", required=True),
        Field("transform", "union", "Transform", required=True),
        Field("output_data_path", "string", required=True),
    ),
    "RawQueryResponseProgress": (),
    "RawQueryResponseSuccess": (Field("num_records", "u64", required=True),),
    "RawQueryResponseInvalidQuery": (Field("message", "string", required=True),),
    "RawQueryResponseInternalError": (
        Field("message", "string", required=True),
        Field("backtrace", "string"),
    ),
    "RawQueryResponseRoot": (Field("value", "union", "RawQueryResponse", required=True),),
    "Watermark": (
        Field("system_time", "timestamp", required=True),
        Field("event_time", "timestamp", required=True),
    ),
    "TransformRequestInput": (
        Field("dataset_id", "dataset_id", required=True),
        Field("dataset_alias", "dataset_alias", required=True),
        Field("query_alias", "string", required=True),
        Field("vocab", "table", "DatasetVocabulary", required=True),
        Field("offset_interval", "table", "OffsetInterval"),
        Field("data_paths", "[string]", required=True),
        Field("schema_file", "string", required=True),
        Field("explicit_watermarks", "[table]", "Watermark", required=True),
    ),
    "TransformRequest": (
        Field("dataset_id", "dataset_id", required=True),
        Field("dataset_alias", "dataset_alias", required=True),
        Field("system_time", "timestamp", required=True),
        Field("vocab", "table", "DatasetVocabulary", required=True),
        Field("transform", "union", "Transform", required=True),
        Field("query_inputs", "[table]", "TransformRequestInput", required=True),
        Field("next_offset", "u64", required=True),
        Field("prev_checkpoint_path", "string"),
        Field("new_checkpoint_path", "string", required=True),
        Field("new_data_path", "string", required=True),
    ),
    "TransformResponseProgress": (),
    "TransformResponseSuccess": (
        Field("new_offset_interval", "table", "OffsetInterval"),
        Field("new_watermark", "timestamp"),
    ),
    "TransformResponseInvalidQuery": (Field("message", "string", required=True),),
    "TransformResponseInternalError": (
        Field("message", "string", required=True),
        Field("backtrace", "string"),
    ),
    "TransformResponseRoot": (Field("value", "union", "TransformResponse", required=True),),
}

UNIONS: dict[str, tuple[str, ...]] = {
    "ReadStep": (
        "ReadStepCsv",
        "ReadStepGeoJson",
        "ReadStepEsriShapefile",
        "ReadStepParquet",
        "ReadStepJson",
        "ReadStepNdJson",
        "ReadStepNdGeoJson",
    ),
    "DataType": (
        "DataTypeBinary",
        "DataTypeBool",
        "DataTypeDate",
        "DataTypeDecimal",
        "DataTypeDuration",
        "DataTypeFloat16",
        "DataTypeFloat32",
        "DataTypeFloat64",
        "DataTypeInt8",
        "DataTypeInt16",
        "DataTypeInt32",
        "DataTypeInt64",
        "DataTypeUInt8",
        "DataTypeUInt16",
        "DataTypeUInt32",
        "DataTypeUInt64",
        "DataTypeList",
        "DataTypeMap",
        "DataTypeNull",
        "DataTypeOption",
        "DataTypeStruct",
        "DataTypeTime",
        "DataTypeTimestamp",
        "DataTypeString",
    ),
    "Transform": ("TransformSql",),
    "MergeStrategy": (
        "MergeStrategyAppend",
        "MergeStrategyLedger",
        "MergeStrategySnapshot",
        "MergeStrategyChangelogStream",
        "MergeStrategyUpsertStream",
    ),
    "Attachments": ("AttachmentsEmbedded",),
    "MetadataEvent": (
        "AddData",
        "ExecuteTransform",
        "Seed",
        "SetPollingSource",
        "SetTransform",
        "SetVocab",
        "SetAttachments",
        "SetInfo",
        "SetLicense",
        "SetDataSchema",
        "AddPushSource",
        "DisablePushSource",
        "DisablePollingSource",
    ),
    "FetchStep": (
        "FetchStepUrl",
        "FetchStepFilesGlob",
        "FetchStepContainer",
        "FetchStepMqtt",
        "FetchStepEthereumLogs",
    ),
    "EventTimeSource": (
        "EventTimeSourceFromMetadata",
        "EventTimeSourceFromPath",
        "EventTimeSourceFromSystemTime",
    ),
    "SourceCaching": ("SourceCachingForever",),
    "PrepStep": (
        "PrepStepDecompress",
        "PrepStepPipe",
    ),
    "RawQueryResponse": (
        "RawQueryResponseProgress",
        "RawQueryResponseSuccess",
        "RawQueryResponseInvalidQuery",
        "RawQueryResponseInternalError",
    ),
    "TransformResponse": (
        "TransformResponseProgress",
        "TransformResponseSuccess",
        "TransformResponseInvalidQuery",
        "TransformResponseInternalError",
    ),
}
"""Variants by discriminator, from 1."""

ENUMS: dict[str, tuple[Literal["i16", "i32"], tuple[str, ...]]] = {
    "TimeUnit": ("i16", ("Second", "Millisecond", "Microsecond", "Nanosecond")),
    "CompressionFormat": ("i32", ("Gzip", "Zip")),
    "DatasetKind": ("i32", ("Root", "Derivative")),
    "SourceOrdering": ("i32", ("ByEventTime", "ByName")),
    "MqttQos": ("i32", ("AtMostOnce", "AtLeastOnce", "ExactlyOnce")),
}
"""Wire type of each enum, and its names in the order of their numbers, from 0."""
