"""Polling sources: fetching and preparing: the tables of `odf_protocol/metadata/sources.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
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
}
