"""The thirteen metadata events, as a sealed union tagged `kind`.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "MetadataEvent".
"""

from __future__ import annotations

from enum import StrEnum

from ..attributes import Attributes
from ..identity import DatasetId
from ..instant import Instant
from ..multihash import Multihash
from .data import Checkpoint, DataSlice, ExecuteTransformInput, SourceState
from .reading import MergeStrategy, ReadStep
from .schema import DataSchema
from .sources import FetchStep, PrepStep
from .table import Table, Variant
from .transforms import Transform, TransformInput


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
