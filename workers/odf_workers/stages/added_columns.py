"""Columns that a batch adds to its dataset: the plan of the batch, on the schema that they extend.

The head of the batch is read once before the stages, so that these, and the history with which rows
are compared, know the new columns as all others.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from msgspec import structs

from odf_protocol.arrow_schema import from_arrow
from odf_protocol.column_names import same_but_case
from odf_protocol.csv_header import key_of_name
from odf_protocol.metadata.reading import ReadStepCsv
from odf_protocol.metadata.schema import DataField, DataSchema

from ..plan.ingest import IngestPlan
from ..readers.known import loosened
from ..slices.frame import Frame
from ..slices.schema import check_known
from .read import rows_of


def with_added_columns(plan: IngestPlan, frame: Frame) -> tuple[IngestPlan, tuple[str, ...]]:
    """Return the plan with the columns of the frame that the dataset lacks: optional, after all
    others; and remarks on them for the publisher. A first batch makes the schema itself.

    Raises:
        BadInputSchema: a new column has no values, or values that cannot be stored.
    """
    if plan.schema is None:
        return plan, ()
    names = {field.name for field in plan.schema.fields} | set(plan.vocab.columns)
    rows = rows_of(frame, plan)
    new = [field for field in rows.schema if field.name not in names]
    for field in new:
        check_known(field, "leave it out until it has values")
    if not new:
        return plan, ()
    every = [*(field.name for field in plan.schema.fields), *(field.name for field in new)]
    remarks = dict.fromkeys([*rows.remarks, *same_but_case(every)])
    return replace(plan, schema=_extended(plan.schema, new)), tuple(remarks)


def with_declared_columns(plan: IngestPlan, found: pa.Schema) -> tuple[IngestPlan, tuple[str, ...]]:
    """Return the plan of a source that declares its columns by a schema, which gets the `found`
    columns of the batch that it lacks, as does the dataset; and remarks. A header of CSV that lacks
    declared columns names none by which others are new.

    Raises:
        BadInputSchema: a new column has no values, or values that cannot be stored.
    """
    declared = plan.read.schema
    assert declared is not None  # noqa: S101 - the caller looked
    named = key_of_name if isinstance(plan.read, ReadStepCsv) else str
    names = {named(field.name) for field in declared.fields}
    if isinstance(plan.read, ReadStepCsv) and not names <= set(map(named, found.names)):
        return plan, ()
    known = names | set(map(named, plan.vocab.columns))
    new = [field for field in found if named(field.name) not in known]
    for field in new:
        check_known(field, "leave it out until it has values")
    if not new:
        return plan, ()
    stored = () if plan.schema is None else plan.schema.fields
    old = {field.name: field for field in stored}
    fields = [old.get(field.name, added) for field, added in zip(new, _optional(new), strict=True)]
    read = structs.replace(declared, fields=(*declared.fields, *fields))
    added = tuple(field for field in fields if field.name not in old)
    schema = plan.schema and structs.replace(plan.schema, fields=(*stored, *added))
    every = dict.fromkeys(field.name for field in (*stored, *read.fields))
    grown = replace(plan, read=structs.replace(plan.read, schema=read), schema=schema)
    return grown, tuple(dict.fromkeys(same_but_case([*every])))


def _extended(schema: DataSchema, new: list[pa.Field]) -> DataSchema:
    return structs.replace(schema, fields=(*schema.fields, *_optional(new)))


def _optional(new: list[pa.Field]) -> tuple[DataField, ...]:
    optional = [field.with_type(loosened(field.type)).with_nullable(True) for field in new]
    return from_arrow(pa.schema(optional)).fields
