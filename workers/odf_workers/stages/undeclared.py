"""Batches of sources without a declared schema: the dataset's schema, once it exists, applies.

The first batch determines columns and types. Later batches may have their columns in another order,
another format, or only whole numbers in a column of fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from odf_protocol.arrow_schema import to_arrow

from ..merge.table import takes_operations
from ..plan.ingest import IngestPlan
from ..readers.known import Known
from ..slices.frame import Frame
from .normalize import clashing, renamed


def known_of(plan: IngestPlan) -> Known | None:
    """Return the dataset's columns, for a batch whose source does not declare them.

    The event time is not included: separate rules convert whole numbers and texts to times.
    """
    if plan.declares or plan.schema is None:
        return None
    schema, vocab = to_arrow(plan.schema), plan.vocab
    own = {vocab.offset_column, vocab.system_time_column, vocab.event_time_column}
    operations = takes_operations(plan.merge)
    if not operations:
        own.add(vocab.operation_type_column)
    fields = {}
    clashes = clashing(vocab, takes_operations=operations)
    for field in schema:
        if field.name in own:
            continue
        is_operation = field.name == vocab.operation_type_column
        fields[field.name] = field.with_nullable(False) if is_operation else field
        for name in clashes:
            if f"_{name}" == field.name:
                fields[name] = fields.pop(field.name)
    return Known(fields, vocab.event_time_column)


def arranged(frame: Frame, plan: IngestPlan) -> Frame:
    """Put the frame's columns in the order of the dataset; new ones stay at the end."""
    if plan.declares or plan.schema is None:
        return frame
    names = renamed(
        list(frame.schema.names), plan.vocab, takes_operations=takes_operations(plan.merge)
    )
    places = {field.name: at for at, field in enumerate(to_arrow(plan.schema))}
    order = sorted(range(len(names)), key=lambda at: (places.get(names[at], len(places)), at))
    if order == list(range(len(names))):
        return frame
    schema = pa.schema([frame.schema.field(at) for at in order])
    return replace(frame, schema=schema, batches=_in_order(frame.batches, schema, order))


def _in_order(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, order: list[int]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch.column(at) for at in order], schema=schema)
