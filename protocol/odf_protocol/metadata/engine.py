"""Messages between a coordinator and an engine.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF engine protocol; FlatBuffers inside gRPC messages.
"""

from __future__ import annotations

from ..identity import DatasetAlias, DatasetId
from ..instant import Instant
from .data import OffsetInterval
from .table import Table, Variant
from .transforms import Transform


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
