"""The last stage: rows in their final order become slices."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa

from ..merge.order import Order
from ..partitions.files import Outbox, deliver, workplace
from ..partitions.port import Batches, Output
from ..slices.columns import POSITION
from ..slices.conform import NullCounts
from ..slices.costs import Cut, in_slices, row_costs
from ..slices.write import SlicePlan, write_slice
from .facts import SliceFacts
from .layout import Layout
from .order import all_sorted
from .rows import Starts, without_position


def by_slice(
    cut: Cut, rows: Starts, costs: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Assign rows to slices; the position of each row becomes its number among all rows."""
    before, cost = rows[number], costs[number]
    is_one = cut.count(costs[-1]) == 1
    for batch in batches:
        data = without_position(batch)
        at = pa.array(np.arange(before, before + batch.num_rows, dtype=np.int64))
        placed = data.append_column(POSITION, at)
        before += batch.num_rows
        if is_one:
            yield 0, placed
            continue
        each = row_costs(data, cut)
        yield from in_slices(placed, each, cost, cut)
        cost += int(each.sum())


def write_sorted(
    plan: SlicePlan,
    outbox: Outbox,
    in_memory: bool,
    order: Order,
    layout: Layout,
    number: int,
    batches: Batches,
) -> Output:
    """Write a slice from all rows of its ranges, which it sorts. Raises the same errors as
    `write_rows`."""
    rows = list(all_sorted(list(batches), order))
    if not rows:
        return
    before, taken = layout.taken(number, pa.Table.from_batches(map(without_position, rows)))
    if taken.num_rows:
        batches = iter(taken.to_batches())
        yield _written(replace(plan, start=plan.start + before), outbox, in_memory, batches)


def write_rows(
    plan: SlicePlan, outbox: Outbox, in_memory: bool, _: int, batches: Batches
) -> Output:
    """Write one slice.

    Raises:
        UnsupportedColumn: a column type without a logical hash.
    """
    if (first := next(batches, None)) is not None:
        start = plan.start + first.column(POSITION)[0].as_py()
        rows = map(without_position, chain([first], batches))
        yield _written(replace(plan, start=start), outbox, in_memory, rows)


def _written(plan: SlicePlan, outbox: Outbox, in_memory: bool, batches: Batches) -> SliceFacts:
    """Write a slice under a unique name: a task may run twice at the same time."""
    path = workplace(outbox) / f"slice-{plan.start}-{secrets.token_hex(8)}.parquet"
    nulls = NullCounts(plan.schema)
    try:
        written = write_slice(batches, plan, path, nulls, in_memory=in_memory)
    except BaseException:  # Spark repeats the task, and each attempt would leave a file
        path.unlink(missing_ok=True)
        raise
    on_disk = written.data is not None and written.content is None
    delivered = deliver(path, outbox) if on_disk else None
    return SliceFacts(written=written, nulls=nulls, delivered=delivered)
