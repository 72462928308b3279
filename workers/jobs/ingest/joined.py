"""Small batches that wait together and are only appended become one slice and one block.

Their rows lie in it one batch after the other, each batch in its own order, so that every
receipt has an interval of its own. Files, hashes and blocks cost by the group then and not by
the post, for who writes and for all who ever read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from odf_node.protocol.arrow_schema import to_arrow
from odf_node.protocol.linked import link_columns
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.reading import MergeStrategyAppend
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.job_payloads.ingest_job import IngestReceipt
from odf_node.storage.stores.ports.values import Job

from ...plan.ingest import IngestPlan
from ...readers.rejected import Rejected
from ...slices.conform import conform
from ...slices.schema import MILLIS
from ...slices.slices import Cut, write_slices
from ...slices.write import Written
from ..work.context import WorkerContext
from .outcome import Extras, Outcome, data_events, receipt
from .run import final_rows, next_offset, read_batch, slice_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of one batch in their final order, without offsets and system time."""

    plan: IngestPlan
    rows: pa.Table
    rejected: Rejected | None
    warnings: tuple[str, ...] = ()


def may_join(job: Job, plan: IngestPlan, *, dry_run: bool, expected_head: str | None) -> bool:
    """Whether a batch is small, and has nothing to say but its rows."""
    return (
        job.spec.body is not None
        and not dry_run
        and expected_head is None
        and isinstance(plan.merge, MergeStrategyAppend)
        and plan.preprocess is None
        and plan.schema is not None
        and not link_columns(plan.schema)
    )


def part_of(
    dataset: Dataset,
    plan: IngestPlan,
    path: Path,
    context: WorkerContext,
    scratch: Path,
    extras: Extras,
) -> Part | None:
    """A batch made ready to be joined; None if it has to be written by itself.

    Raises what reading a batch raises.
    """
    schema = _schema(plan)
    if any(map(pa.types.is_nested, schema.types)):
        return None
    batch = read_batch(plan, path, context, scratch, extras)
    if batch is None:
        return None
    system = {plan.vocab.offset_column, plan.vocab.system_time_column}
    fields = [field for field in schema if field.name not in system]
    batches = list(final_rows(dataset, plan, batch, context, scratch))
    columns = [
        pa.chunked_array([_column(rows, field, plan) for rows in batches], field.type)
        for field in fields
    ]
    if any(c.null_count for c, field in zip(columns, fields, strict=True) if not field.nullable):
        return None
    return Part(
        plan=plan,
        rows=pa.table(columns, pa.schema(fields)),
        rejected=batch.rejected,
        warnings=batch.warnings,
    )


def _schema(plan: IngestPlan) -> pa.Schema:
    if plan.schema is None:
        raise AssertionError("unreachable: who joins has a schema")
    return to_arrow(plan.schema)


def _column(rows: pa.RecordBatch, field: pa.Field, plan: IngestPlan) -> pa.Array:
    column = conform(rows.column(field.name), field.type)
    if field.name == plan.vocab.event_time_column and column.null_count:
        fallback = pa.scalar(plan.source_event_time.millis, MILLIS)
        column = pc.fill_null(column, fallback.cast(field.type, safe=False))
    return column


def join(parts: Sequence[Part], cut: Cut, folder: Path) -> tuple[IngestPlan, Outcome]:
    """All the parts, which were planned on the same head, as one batch."""
    first = parts[0].plan
    plan = replace(first, system_time=max(part.plan.system_time for part in parts))
    rows = (
        parts[0].rows.to_batches()
        if len(parts) == 1
        else pa.concat_tables([part.rows for part in parts]).combine_chunks().to_batches()
    )
    slices = write_slices(iter(rows), slice_plan(plan, _schema(plan)), folder, cut)
    extras = Extras(source_state=plan.source_state)
    events = data_events(plan, slices, extras, links=[None] * len(slices))
    return plan, Outcome(events=events, slices=slices, rows_read=0)


def receipts_of(
    parts: Sequence[Part], plan: IngestPlan, whole: Outcome, blocks: list[HashedBlock]
) -> list[IngestReceipt]:
    """To each part its own: which rows of the slice they share are its rows."""
    told, start = [], next_offset(plan)
    for part in parts:
        rows = part.rows.num_rows
        own = [each for each in whole.slices if _meets(each, start, start + rows - 1)]
        outcome = Outcome(
            events=[],
            slices=own,
            rows_read=rows,
            rejected=part.rejected,
            warnings=part.warnings,
        )
        found = receipt(plan, outcome, blocks if rows else [])
        if rows:
            found = structs.replace(
                found,
                offset_start=start,
                offset_end=start + rows - 1,
                rows_added=rows,
                rows_known=0,
            )
        told.append(found)
        start += rows
    return told


def _meets(written: Written, start: int, end: int) -> bool:
    if written.data is None:
        return False
    interval = written.data.offset_interval
    return interval.start <= end and start <= interval.end and start <= end
