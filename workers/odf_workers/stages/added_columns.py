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
from odf_protocol.metadata.schema import DataSchema

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


def _extended(schema: DataSchema, new: list[pa.Field]) -> DataSchema:
    optional = [field.with_type(loosened(field.type)).with_nullable(True) for field in new]
    return structs.replace(schema, fields=(*schema.fields, *from_arrow(pa.schema(optional)).fields))
