"""How a root dataset polls its data: fetch, preparation, caching, ordering.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "FetchStep", "PrepStep", "EventTimeSource", "SourceCaching".

Read steps, which turn bytes into rows, and merge strategies, which add rows to the history.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "ReadStep", "MergeStrategy".
"""

from __future__ import annotations

from enum import StrEnum

from .schema import DataSchema, Table, Variant


class EnvVar(Table, frozen=True, kw_only=True):
    name: str
    value: str | None = None


class RequestHeader(Table, frozen=True, kw_only=True):
    name: str
    value: str


class SourceOrdering(StrEnum):
    """Which of several files is read first. Wire values are the positions."""

    ByEventTime = "ByEventTime"
    ByName = "ByName"


class EventTimeSourceFromMetadata(Variant, tag="FromMetadata", frozen=True, kw_only=True):
    pass


class EventTimeSourceFromPath(Variant, tag="FromPath", frozen=True, kw_only=True):
    pattern: str
    timestamp_format: str | None = None


class EventTimeSourceFromSystemTime(Variant, tag="FromSystemTime", frozen=True, kw_only=True):
    pass


class SourceCachingForever(Variant, tag="Forever", frozen=True, kw_only=True):
    pass


class FetchStepUrl(Variant, tag="Url", frozen=True, kw_only=True):
    url: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    headers: tuple[RequestHeader, ...] | None = None


class FetchStepFilesGlob(Variant, tag="FilesGlob", frozen=True, kw_only=True):
    path: str
    event_time: EventTimeSource | None = None
    cache: SourceCaching | None = None
    order: SourceOrdering | None = None


class FetchStepContainer(Variant, tag="Container", frozen=True, kw_only=True):
    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None


class MqttQos(StrEnum):
    """Delivery guarantee of a topic. Wire values are the positions."""

    AtMostOnce = "AtMostOnce"
    AtLeastOnce = "AtLeastOnce"
    ExactlyOnce = "ExactlyOnce"


class MqttTopicSubscription(Table, frozen=True, kw_only=True):
    path: str
    qos: MqttQos | None = None


class FetchStepMqtt(Variant, tag="Mqtt", frozen=True, kw_only=True):
    host: str
    port: int
    username: str | None = None
    password: str | None = None
    topics: tuple[MqttTopicSubscription, ...]


class FetchStepEthereumLogs(Variant, tag="EthereumLogs", frozen=True, kw_only=True):
    chain_id: int | None = None
    node_url: str | None = None
    filter: str | None = None
    signature: str | None = None


class CompressionFormat(StrEnum):
    """Container a file comes in. Wire values are the positions."""

    Gzip = "Gzip"
    Zip = "Zip"


class PrepStepDecompress(Variant, tag="Decompress", frozen=True, kw_only=True):
    format: CompressionFormat
    sub_path: str | None = None


class PrepStepPipe(Variant, tag="Pipe", frozen=True, kw_only=True):
    command: tuple[str, ...]


EventTimeSource = (
    EventTimeSourceFromMetadata | EventTimeSourceFromPath | EventTimeSourceFromSystemTime
)


SourceCaching = SourceCachingForever
"""Sealed union with a single variant."""


FetchStep = (
    FetchStepUrl | FetchStepFilesGlob | FetchStepContainer | FetchStepMqtt | FetchStepEthereumLogs
)


PrepStep = PrepStepDecompress | PrepStepPipe


class ReadStepCsv(Variant, tag="Csv", frozen=True, kw_only=True):
    ddl_schema: tuple[str, ...] | None = None
    separator: str | None = None
    encoding: str | None = None
    quote: str | None = None
    escape: str | None = None
    header: bool | None = None
    infer_schema: bool | None = None
    null_value: str | None = None
    date_format: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


class ReadStepGeoJson(Variant, tag="GeoJson", frozen=True, kw_only=True):
    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


class ReadStepEsriShapefile(Variant, tag="EsriShapefile", frozen=True, kw_only=True):
    ddl_schema: tuple[str, ...] | None = None
    sub_path: str | None = None
    schema: DataSchema | None = None


class ReadStepParquet(Variant, tag="Parquet", frozen=True, kw_only=True):
    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


class ReadStepJson(Variant, tag="Json", frozen=True, kw_only=True):
    sub_path: str | None = None
    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


class ReadStepNdJson(Variant, tag="NdJson", frozen=True, kw_only=True):
    ddl_schema: tuple[str, ...] | None = None
    date_format: str | None = None
    encoding: str | None = None
    timestamp_format: str | None = None
    schema: DataSchema | None = None


class ReadStepNdGeoJson(Variant, tag="NdGeoJson", frozen=True, kw_only=True):
    ddl_schema: tuple[str, ...] | None = None
    schema: DataSchema | None = None


class MergeStrategyAppend(Variant, tag="Append", frozen=True, kw_only=True):
    pass


class MergeStrategyLedger(Variant, tag="Ledger", frozen=True, kw_only=True):
    primary_key: tuple[str, ...]


class MergeStrategySnapshot(Variant, tag="Snapshot", frozen=True, kw_only=True):
    primary_key: tuple[str, ...]
    compare_columns: tuple[str, ...] | None = None


class MergeStrategyChangelogStream(Variant, tag="ChangelogStream", frozen=True, kw_only=True):
    primary_key: tuple[str, ...]


class MergeStrategyUpsertStream(Variant, tag="UpsertStream", frozen=True, kw_only=True):
    primary_key: tuple[str, ...]


ReadStep = (
    ReadStepCsv
    | ReadStepGeoJson
    | ReadStepEsriShapefile
    | ReadStepParquet
    | ReadStepJson
    | ReadStepNdJson
    | ReadStepNdGeoJson
)


MergeStrategy = (
    MergeStrategyAppend
    | MergeStrategyLedger
    | MergeStrategySnapshot
    | MergeStrategyChangelogStream
    | MergeStrategyUpsertStream
)
