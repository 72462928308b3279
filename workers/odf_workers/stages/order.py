"""The stage that sorts rows in their final order, and sorting in other stages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..merge.order import Order, range_of, sort_indices
from ..partitions.port import Batches, Output
from .facts import RowFacts, Totals
from .post_read import PostRead
from .rows import Starts, dealt, numbered

BATCH_ROWS = 65_536


def all_sorted(every: list[pa.RecordBatch], order: Order) -> Batches:
    """Return all rows, sorted if they are not yet."""
    if every:
        yield from sorted_rows(pa.Table.from_batches(every), order)


def sorted_rows(table: pa.Table, order: Order) -> Batches:
    if table.num_rows < 2:
        yield from table.to_batches()
        return
    at = sort_indices(table, order)
    ascends = bool((np.diff(at.to_numpy()) == 1).all())
    yield from (table if ascends else table.take(at)).to_batches(BATCH_ROWS)


def by_order(
    order: Order, begins: pa.Table, starts: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Assign rows to ranges by their final order."""
    for batch in batches:
        rows = numbered(batch, starts[number]) if starts else batch
        yield from dealt(rows, range_of(pa.table(rows), order, begins))


def order_rows(read: PostRead, _: int, batches: Batches) -> Output:
    """Sort the rows of a range."""
    totals = Totals(read.cut)
    yield from totals.passed(all_sorted(list(batches), read.order))
    yield RowFacts(rows=totals.rows, cost=totals.cost, size=totals.size)
