"""Read steps, which turn bytes into rows, and merge strategies, which add rows to the history.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "ReadStep", "MergeStrategy".
"""

from __future__ import annotations

from .schema import DataSchema
from .table import Variant


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
