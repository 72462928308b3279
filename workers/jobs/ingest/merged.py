"""Rows of a staged batch, merged with the history and in their final order, in this process.

All rows are one partition. Where every row of the batch passes and they come in order, they are
taken as they lie; other batches are merged and sorted in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from odf_node.protocol.source_options import retraction_rule

from ...merge.changes import in_slice_types
from ...merge.findings import judged
from ...merge.history import HistoryRange
from ...merge.order import Order, sort_indices
from ...merge.table import MERGE, merging_of
from ...plan.ingest import IngestPlan
from ...slices.columns import Merging, Operation
from .stage import BATCH_ROWS, Staged

ROW_BYTES = 256
"""What a row of the history is taken for when the batch has none."""


@dataclass(frozen=True, slots=True)
class FinalRows:
    """Rows as they will be written, without offsets and system time."""

    batches: Iterable[pa.RecordBatch]
    warnings: tuple[str, ...] = ()


def merge_here(
    staged: Staged, plan: IngestPlan, schema: pa.Schema, history: HistoryRange | None
) -> FinalRows:
    """Final rows of a batch for slices of that schema; `history` is all of it.

    Raises:
        CannotMerge: rows that must not be written.
    """
    merging = merging_of(plan.merge, plan.vocab)
    if passes_as_it_lies(staged, plan, history):
        return FinalRows(_appended(staged.batches(), merging))
    rule = MERGE[type(plan.merge)]
    merged = rule.merge(merging, in_slice_types(staged.rows_of_all(), schema, merging), history)
    warnings = judged(merged.findings, retraction_rule(plan.read.schema))
    order = Order(
        columns=rule.order(merging),
        event_time=plan.vocab.event_time_column,
        fallback=plan.source_event_time,
    )
    rows = merged.rows.take(sort_indices(merged.rows, order))
    return FinalRows(iter(rows.to_batches(BATCH_ROWS)), warnings)


def passes_as_it_lies(staged: Staged, plan: IngestPlan, history: HistoryRange | None) -> bool:
    """Whether every row is appended, in the order of the input."""
    rule = MERGE[type(plan.merge)]
    first = rule.order(merging_of(plan.merge, plan.vocab))[0]
    by_time = first == plan.vocab.event_time_column
    return rule.passes and history is None and by_time and staged.ordered


def fits(staged: Staged, plan: IngestPlan, history: HistoryRange | None, limit: int) -> bool:
    """Whether what comes out at worst is no more than so many bytes."""
    if passes_as_it_lies(staged, plan, history):
        return True
    rule = MERGE[type(plan.merge)]
    rows = staged.rows
    if history is not None and not rule.knows_keys_only:
        rows += staged.rows + (history.state.rows if rule.reads_all else 0)
    return rows * (staged.size // max(1, staged.rows) or ROW_BYTES) <= limit


def _appended(batches: Iterator[pa.RecordBatch], merging: Merging) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        codes = pa.repeat(pa.scalar(int(Operation.APPEND), pa.int32()), batch.num_rows)
        yield batch.append_column(merging.op, codes)
