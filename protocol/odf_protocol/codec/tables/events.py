"""The events of the metadata chain: the tables of `odf_protocol/metadata/events.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
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
}
