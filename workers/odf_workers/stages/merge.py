"""The stage that merges rows with the history of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..merge.keys import hashes_of, key_range, key_ranges
from ..merge.order import in_ranges
from ..merge.table import MERGE, merging_of
from ..partitions.port import Batches, Output
from ..slices.columns import POSITION
from ..slices.costs import costs_of
from .facts import Cuts, MergeFacts, Totals
from .order import BATCH_ROWS, sorted_rows
from .post_read import PostRead
from .rows import Starts, dealt, numbered

SEVERAL = 0.5
"""Share of a slice from which a result is expected to be several slices: it is estimated from one
partition."""


def by_key(
    key: Sequence[str], starts: Starts, ranges: int, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Assign rows to ranges by the hash of their key."""
    for batch in batches:
        rows = numbered(batch, starts[number])
        yield from dealt(rows, key_range(hashes_of(pa.table(rows), key), ranges))


def merge_rows(
    read: PostRead,
    schema: pa.Schema,
    ranges: int,
    begins: pa.Table | None,
    number: int,
    batches: Batches,
) -> Output:
    """Merge the rows of one range of key hashes, which have the schema, with the history of that
    range. `begins` cuts the result into ranges of keys, in case that it is several slices."""
    plan = read.plan
    merging = replace(merging_of(plan.merge, plan.vocab), source_event_time=plan.source_event_time)
    every = list(batches)
    rule = MERGE[type(plan.merge)]
    if not every and not (rule.reads_all and read.history is not None):
        yield MergeFacts()
        return
    known = None
    if read.history is not None:
        known = read.history.opened(*key_ranges(ranges)[number])
    rows = pa.Table.from_batches(every) if every else schema.empty_table()
    merged = rule.merge(merging, rows, known)
    totals = Totals(read.cut, read.order if ranges > 1 else None)
    whole = merged.rows.combine_chunks()
    cuts: Cuts = ()
    if ranges == 1:
        ordered = sorted_rows(whole, read.order)
    else:
        if begins is not None:
            whole, cuts = _in_ranges(read, whole, begins, ranges)
        ordered = iter(whole.to_batches(BATCH_ROWS))
    yield from totals.passed(ordered)
    yield MergeFacts(
        rows=totals.rows,
        cost=totals.cost,
        size=totals.size,
        samples=totals.keys(),
        findings=merged.findings,
        ranges=cuts,
    )


def _in_ranges(
    read: PostRead, rows: pa.Table, begins: pa.Table, partitions: int
) -> tuple[pa.Table, Cuts]:
    """Return the rows in the order of ranges of keys, and how many there are of each; unchanged if
    all partitions together hardly are more than a slice."""
    costs = costs_of(rows.drop_columns(POSITION), read.cut)
    if costs.sum() * partitions < read.cut.size * SEVERAL:
        return rows, ()
    at, counts = in_ranges(rows, read.key_order, begins)
    sums = np.concatenate([[0], np.cumsum(costs[at])])[np.cumsum(counts)]
    cuts = zip(counts.tolist(), np.diff(sums, prepend=0).tolist(), strict=True)
    return rows.take(at), tuple(cuts)
