"""Variants of the unions and names of the enums, in the order of their numbers."""

from __future__ import annotations

from typing import Literal

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
