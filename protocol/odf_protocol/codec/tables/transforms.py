"""Transforms and their inputs: the tables of `odf_protocol/metadata/transforms.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
    "SqlQueryStep": (
        Field("alias", "string"),
        Field("query", "string", required=True),
    ),
    "TemporalTable": (
        Field("name", "string", required=True),
        Field("primary_key", "[string]", required=True),
    ),
    "TransformSql": (
        Field("engine", "string", required=True),
        Field("version", "string"),
        Field("query", "string"),
        Field("queries", "[table]", "SqlQueryStep"),
        Field("temporal_tables", "[table]", "TemporalTable"),
    ),
    "TransformInput": (
        Field("dataset_ref", "dataset_ref", required=True),
        Field("alias", "string"),
    ),
}
