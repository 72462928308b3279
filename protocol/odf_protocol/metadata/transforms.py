"""Queries over records: SQL steps, temporal tables, inputs of derivatives.

Fields have the order of the ODF schemas; `odf_protocol/codec/tables` assigns their slots.
Source: ODF "Transform", "TransformInput".
"""

from __future__ import annotations

from ..identity import DatasetRef
from .table import Table, Variant


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
