"""How a root dataset polls its data: fetch, preparation, caching, ordering.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "FetchStep", "PrepStep", "EventTimeSource", "SourceCaching".
"""

from __future__ import annotations

from enum import StrEnum

from .table import Table, Variant


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
