"""The stage that merges rows with the history of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..merge.keys import hashes_of, key_range, key_ranges
from ..merge.table import MERGE, merging_of
from ..partitions.port import Batches, Output
from .facts import MergeFacts, Totals
from .order import BATCH_ROWS, sorted_rows
from .post_read import PostRead
from .rows import Starts, dealt, numbered


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
    number: int,
    batches: Batches,
) -> Output:
    """Merge the rows of one range of key hashes, which have the schema, with the history of that
    range."""
    merging, plan = merging_of(read.plan.merge, read.plan.vocab), read.plan
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
    totals = Totals(read.cut, read.order)
    whole = merged.rows.combine_chunks()
    yield from totals.passed(
        sorted_rows(whole, read.order) if ranges == 1 else iter(whole.to_batches(BATCH_ROWS))
    )
    yield MergeFacts(
        rows=totals.rows,
        cost=totals.cost,
        size=totals.size,
        samples=totals.keys(),
        findings=merged.findings,
    )
