"""Read steps and merge strategies: the tables of `odf_protocol/metadata/reading.py`."""

from __future__ import annotations

from .field import Field, Tables

TABLES: Tables = {
    "ReadStepCsv": (
        Field("ddl_schema", "[string]"),
        Field("separator", "string"),
        Field("encoding", "string"),
        Field("quote", "string"),
        Field("escape", "string"),
        Field("header", "bool"),
        Field("infer_schema", "bool"),
        Field("null_value", "string"),
        Field("date_format", "string"),
        Field("timestamp_format", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepGeoJson": (
        Field("ddl_schema", "[string]"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepEsriShapefile": (
        Field("ddl_schema", "[string]"),
        Field("sub_path", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepParquet": (
        Field("ddl_schema", "[string]"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepJson": (
        Field("sub_path", "string"),
        Field("ddl_schema", "[string]"),
        Field("date_format", "string"),
        Field("encoding", "string"),
        Field("timestamp_format", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepNdJson": (
        Field("ddl_schema", "[string]"),
        Field("date_format", "string"),
        Field("encoding", "string"),
        Field("timestamp_format", "string"),
        Field("schema", "table", "DataSchema"),
    ),
    "ReadStepNdGeoJson": (
        Field("ddl_schema", "[string]"),
        Field("schema", "table", "DataSchema"),
    ),
    "MergeStrategyAppend": (),
    "MergeStrategyLedger": (Field("primary_key", "[string]", required=True),),
    "MergeStrategySnapshot": (
        Field("primary_key", "[string]", required=True),
        Field("compare_columns", "[string]"),
    ),
    "MergeStrategyChangelogStream": (Field("primary_key", "[string]", required=True),),
    "MergeStrategyUpsertStream": (Field("primary_key", "[string]", required=True),),
}
