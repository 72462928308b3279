"""The thirteen metadata events, as a sealed union tagged `kind`.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "MetadataEvent".

Queries over records: SQL steps, temporal tables, inputs of derivatives.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "Transform", "TransformInput".

Values that data events refer to: slices, checkpoints, offsets, source state.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "DataSlice", "Checkpoint", "OffsetInterval", "SourceState".

Blocks of the metadata chain, and the manifest from which a dataset is created.

A `HashedBlock` keeps the bytes it was decoded from; these bytes are stored, hashed, bundled and
served. Decoding only reads a block; only newly authored blocks are encoded.
Source: ODF "MetadataBlock", "DatasetSnapshot", "Manifest".

Messages between a coordinator and an engine.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF engine protocol; FlatBuffers inside gRPC messages.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from ..identity import DatasetAlias, DatasetId, DatasetRef
from ..instant import Instant
from ..multihash import Multihash
from .attributes import Attributes
from .schema import DataSchema, Table, Variant
from .sources import FetchStep, MergeStrategy, PrepStep, ReadStep


class SqlQueryStep(Table, frozen=True, kw_only=True):
    alias: str | None = None
    query: str


class TemporalTable(Table, frozen=True, kw_only=True):
    name: str
    primary_key: tuple[str, ...]


class TransformSql(Variant, tag="Sql", frozen=True, kw_only=True):
    engine: str
    version: str | None = None
    query: str | None = None
    queries: tuple[SqlQueryStep, ...] | None = None
    temporal_tables: tuple[TemporalTable, ...] | None = None


class TransformInput(Table, frozen=True, kw_only=True):
    dataset_ref: DatasetRef
    alias: str | None = None


Transform = TransformSql
"""Sealed union with a single variant."""


class OffsetInterval(Table, frozen=True, kw_only=True):
    """Closed interval of row numbers, from 0."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.end - self.start + 1


class DataSlice(Table, frozen=True, kw_only=True):
    """One immutable part of the ledger: a Parquet file, its hashes, its rows. `size` in bytes."""

    logical_hash: Multihash
    physical_hash: Multihash
    offset_interval: OffsetInterval
    size: int


class Checkpoint(Table, frozen=True, kw_only=True):
    """Engine-private state, opaque, named by its physical hash. `size` in bytes."""

    physical_hash: Multihash
    size: int


class SourceState(Table, frozen=True, kw_only=True):
    """Where polling or pushing left off; advice to the fetcher."""

    source_name: str
    kind: str
    value: str


class ExecuteTransformInput(Table, frozen=True, kw_only=True):
    """What one execution consumed of one input: half-open (prev, new] in blocks and offsets."""

    dataset_id: DatasetId
    prev_block_hash: Multihash | None = None
    new_block_hash: Multihash | None = None
    prev_offset: int | None = None
    new_offset: int | None = None


class DatasetKind(StrEnum):
    """Root receives data, Derivative computes it. Wire values are the positions."""

    Root = "Root"
    Derivative = "Derivative"


class AttachmentEmbedded(Table, frozen=True, kw_only=True):
    path: str
    content: str


class AttachmentsEmbedded(Variant, tag="Embedded", frozen=True, kw_only=True):
    items: tuple[AttachmentEmbedded, ...]


class AddData(Variant, tag="AddData", frozen=True, kw_only=True):
    """Data entered a root dataset."""

    prev_checkpoint: Multihash | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: Instant | None = None
    new_source_state: SourceState | None = None
    extra: Attributes | None = None


class ExecuteTransform(Variant, tag="ExecuteTransform", frozen=True, kw_only=True):
    """A derivative dataset consumed input and produced output."""

    query_inputs: tuple[ExecuteTransformInput, ...]
    prev_checkpoint: Multihash | None = None
    prev_offset: int | None = None
    new_data: DataSlice | None = None
    new_checkpoint: Checkpoint | None = None
    new_watermark: Instant | None = None


class Seed(Variant, tag="Seed", frozen=True, kw_only=True):
    """First block: identity and kind."""

    dataset_id: DatasetId
    dataset_kind: DatasetKind


class SetPollingSource(Variant, tag="SetPollingSource", frozen=True, kw_only=True):
    """How the dataset polls its data."""

    fetch: FetchStep
    prepare: tuple[PrepStep, ...] | None = None
    read: ReadStep
    preprocess: Transform | None = None
    merge: MergeStrategy


class SetTransform(Variant, tag="SetTransform", frozen=True, kw_only=True):
    """How a derivative computes its data."""

    inputs: tuple[TransformInput, ...]
    transform: Transform


class SetVocab(Variant, tag="SetVocab", frozen=True, kw_only=True):
    """Names of the system columns; absent ones keep their default."""

    offset_column: str | None = None
    operation_type_column: str | None = None
    system_time_column: str | None = None
    event_time_column: str | None = None


class SetAttachments(Variant, tag="SetAttachments", frozen=True, kw_only=True):
    """Documents that belong to the dataset."""

    attachments: Attachments


class SetInfo(Variant, tag="SetInfo", frozen=True, kw_only=True):
    """Description and keywords for people."""

    description: str | None = None
    keywords: tuple[str, ...] | None = None


class SetLicense(Variant, tag="SetLicense", frozen=True, kw_only=True):
    """Terms under which the data may be used."""

    short_name: str
    name: str
    spdx_id: str | None = None
    website_url: str


class SetDataSchema(Variant, tag="SetDataSchema", frozen=True, kw_only=True):
    """Schema of all data that follows; exactly one of the two forms is set."""

    raw_arrow_schema: bytes | None = None
    schema: DataSchema | None = None


class AddPushSource(Variant, tag="AddPushSource", frozen=True, kw_only=True):
    """How data sent to this dataset is read and merged, by source name."""

    source_name: str
    read: ReadStep
    preprocess: Transform | None = None
    merge: MergeStrategy


class DisablePushSource(Variant, tag="DisablePushSource", frozen=True, kw_only=True):
    """The push source of that name takes no more data."""

    source_name: str


class DisablePollingSource(Variant, tag="DisablePollingSource", frozen=True, kw_only=True):
    """Polling ends."""


Attachments = AttachmentsEmbedded
"""Sealed union with a single variant."""


MetadataEvent = (
    AddData
    | ExecuteTransform
    | Seed
    | SetPollingSource
    | SetTransform
    | SetVocab
    | SetAttachments
    | SetInfo
    | SetLicense
    | SetDataSchema
    | AddPushSource
    | DisablePushSource
    | DisablePollingSource
)


BlockVersion = Literal[2, 3]
"""Manifest versions that can be read; they differ only in the alignment of timestamps."""
WRITTEN_VERSION: BlockVersion = 3


class UnknownEvent(Variant, tag="Unknown", frozen=True, kw_only=True):
    """An event, or a part of one, that only newer writers know.

    The block can still be stored and served; code that needs its meaning raises `NotUnderstood`.
    """

    discriminator: int
    name: str | None = None
    detail: str = ""


class MetadataBlock(Table, frozen=True, kw_only=True):
    """One link of the chain."""

    system_time: Instant
    prev_block_hash: Multihash | None = None
    sequence_number: int
    event: MetadataEvent | UnknownEvent


class DatasetSnapshot(Table, frozen=True, kw_only=True):
    """What a dataset is created from: name, kind and its first events."""

    name: DatasetAlias
    kind: DatasetKind
    metadata: tuple[MetadataEvent, ...]


class HashedBlock(Struct, frozen=True, gc=False):
    """A block with its hash and the exact bytes in which it was received."""

    hash: Multihash
    raw: bytes
    block: MetadataBlock
    version: BlockVersion = WRITTEN_VERSION

    @property
    def event(self) -> MetadataEvent | UnknownEvent:
        return self.block.event

    @property
    def prev(self) -> Multihash | None:
        return self.block.prev_block_hash

    @property
    def sequence_number(self) -> int:
        return self.block.sequence_number


class DatasetVocabulary(Table, frozen=True, kw_only=True):
    offset_column: str | None = None
    operation_type_column: str | None = None
    system_time_column: str | None = None
    event_time_column: str | None = None


class RawQueryRequest(Table, frozen=True, kw_only=True):
    input_data_paths: tuple[str, ...]
    transform: Transform
    output_data_path: str


class RawQueryResponseProgress(Variant, tag="Progress", frozen=True, kw_only=True):
    pass


class RawQueryResponseSuccess(Variant, tag="Success", frozen=True, kw_only=True):
    num_records: int


class RawQueryResponseInvalidQuery(Variant, tag="InvalidQuery", frozen=True, kw_only=True):
    message: str


class RawQueryResponseInternalError(Variant, tag="InternalError", frozen=True, kw_only=True):
    message: str
    backtrace: str | None = None


class Watermark(Table, frozen=True, kw_only=True):
    system_time: Instant
    event_time: Instant


class TransformRequestInput(Table, frozen=True, kw_only=True):
    dataset_id: DatasetId
    dataset_alias: DatasetAlias
    query_alias: str
    vocab: DatasetVocabulary
    offset_interval: OffsetInterval | None = None
    data_paths: tuple[str, ...]
    schema_file: str
    explicit_watermarks: tuple[Watermark, ...]


class TransformRequest(Table, frozen=True, kw_only=True):
    dataset_id: DatasetId
    dataset_alias: DatasetAlias
    system_time: Instant
    vocab: DatasetVocabulary
    transform: Transform
    query_inputs: tuple[TransformRequestInput, ...]
    next_offset: int
    prev_checkpoint_path: str | None = None
    new_checkpoint_path: str
    new_data_path: str


class TransformResponseProgress(Variant, tag="Progress", frozen=True, kw_only=True):
    pass


class TransformResponseSuccess(Variant, tag="Success", frozen=True, kw_only=True):
    new_offset_interval: OffsetInterval | None = None
    new_watermark: Instant | None = None


class TransformResponseInvalidQuery(Variant, tag="InvalidQuery", frozen=True, kw_only=True):
    message: str


class TransformResponseInternalError(Variant, tag="InternalError", frozen=True, kw_only=True):
    message: str
    backtrace: str | None = None


RawQueryResponse = (
    RawQueryResponseProgress
    | RawQueryResponseSuccess
    | RawQueryResponseInvalidQuery
    | RawQueryResponseInternalError
)


TransformResponse = (
    TransformResponseProgress
    | TransformResponseSuccess
    | TransformResponseInvalidQuery
    | TransformResponseInternalError
)
