"""Messages between a coordinator and an engine: the tables of `odf_protocol/metadata/engine.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
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
