"""The stages of an ingest in their order, and what the driver plans and sums between them.

Rows of the posts of a Batch are merged, sorted, and written together. The result does not depend on
where the partitions (`odf_workers/partitions`) are processed.

The stage that merges rows with the history of their keys.

The last stage: rows in their final order become slices.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from odf_protocol.sources.source_options import options_of

from ..merge.history import Findings, HistoryFiles, hashes_of, judged, key_range, key_ranges
from ..merge.strategies import MERGE, MergeOrder, bounds, bytes_of_all, in_ranges, merging_of
from ..partitions.memory import SMALLEST_PARTITION_BYTES
from ..partitions.port import (
    Batches,
    Outbox,
    Output,
    Partitions,
    Route,
    Way,
    Work,
    deliver,
    workplace,
)
from ..plan.ingest import IngestPlan
from ..slices.conform import NullCounts
from ..slices.costs import SliceCut, costs_of, in_slices, row_costs
from ..slices.schema import POSITION
from ..slices.write import SlicePlan, Written, write_slice
from .facts import (
    Cuts,
    FactLayout,
    MergeFacts,
    PartitionFacts,
    SliceFacts,
    Starts,
    Totals,
    dealt,
    numbered,
    without_position,
)
from .read import BATCH_ROWS, PostRead, all_sorted, by_order, order_rows, sorted_rows
from .read_posts import PostRows, ReadRows

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


def by_slice(
    cut: SliceCut, rows: Starts, costs: Starts, number: int, batches: Batches
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
    order: MergeOrder,
    layout: FactLayout,
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


RANGES_PER_SLICE = 16
"""Ranges of keys for each expected slice: writers receive a range twice if two slices share it."""
MOST_RANGES = 256


@dataclass(frozen=True, slots=True)
class Sort:
    """Writers of slices still have to sort the rows."""

    order: MergeOrder
    layout: FactLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRows:
    """Rows in their final order, over partitions; `facts` has the number and cost of the rows in
    each."""

    partitions: Partitions
    facts: tuple[PartitionFacts, ...]
    warnings: tuple[str, ...] = ()
    sort: Sort | None = None
    """Sorting that remains for the writers of slices."""


def in_order(way: Way, posts: Sequence[PostRead], rows: ReadRows) -> OrderedRows:
    """Merge the rows with the history of their keys, and return them in the order in which they
    will be written. Posts that share slices were each sorted while they were read.

    Raises:
        CannotMerge: rows that must not be written.
    """
    if all(_is_ordered(*each) for each in zip(posts, rows.posts, strict=True)):
        facts = tuple(facts for each in rows.posts for facts in each.facts)
        return OrderedRows(partitions=rows.partitions, facts=facts)
    (post,), (found,) = posts, rows.posts
    if post.passes:
        counts, cost = [each.rows for each in found.facts], sum(each.cost for each in found.facts)
        layout = FactLayout.of_one(post.cut, counts, cost)
        return _sorted(way, post, rows.partitions, found.facts, found.samples, found.starts, layout)
    return _merged(way, post, found, rows.partitions)


def _is_ordered(post: PostRead, rows: PostRows) -> bool:
    return post.passes and (post.sorts or (rows.ascends and _is_by_event_time(post)))


def _merged(way: Way, post: PostRead, rows: PostRows, partitions: Partitions) -> OrderedRows:
    history = post.history
    if not rows.rows and (history is None or not MERGE[type(post.plan.merge)].reads_all):
        return OrderedRows(partitions=partitions, facts=rows.facts)
    known = 0 if history is None else bytes_of_all(post.plan.merge, history.size)
    ranges = partition_count(way, rows.size + known)
    merging = merging_of(post.plan.merge, post.plan.vocab)
    merged = partitions.then(
        ranges,
        partial(by_key, merging.key, rows.starts, ranges),
        partial(merge_rows, post, _rows_schema(post, rows), ranges, _begins(post, rows, ranges)),
    )
    facts: list[MergeFacts] = [each for facts in merged.facts() for each in facts]
    partitions.release()
    findings = Findings.joined([each.findings for each in facts])
    warnings = judged(findings, options_of(post.plan.read).retractions, rows.number_of)
    if ranges == 1:
        return OrderedRows(partitions=merged, facts=tuple(facts), warnings=warnings)
    samples = [each.samples for each in facts if each.samples is not None]
    layout = _layout(post.cut, facts)
    return replace(_sorted(way, post, merged, facts, samples, (), layout), warnings=warnings)


def _begins(post: PostRead, rows: PostRows, ranges: int) -> pa.Table | None:
    """Return where ranges of keys begin, so small that a slice is several of them."""
    samples = [each.samples for each in rows.facts if each.samples is not None]
    if ranges == 1 or not samples:
        return None
    slices = post.cut.count(sum(each.cost for each in rows.facts)) + 1
    return bounds(samples, min(slices * RANGES_PER_SLICE, MOST_RANGES))


def _layout(cut: SliceCut, facts: Sequence[MergeFacts]) -> FactLayout:
    """Return the layout of the ranges of keys; one range if a partition is not cut."""
    (count, *more) = {len(each.ranges) for each in facts if each.rows} or {0}
    if more or not count:
        return FactLayout.of_one(
            cut, [each.rows for each in facts], sum(each.cost for each in facts)
        )
    ranges = [each.ranges or ((0, 0),) * count for each in facts]
    return FactLayout(
        cut=cut,
        parts=tuple(tuple(rows for rows, _ in each) for each in ranges),
        costs=tuple(sum(cost for _, cost in each) for each in zip(*ranges, strict=True)),
    )


def write(
    way: Way, ordered: OrderedRows, plan: SlicePlan, folder: Path, cut: SliceCut
) -> list[Written]:
    """Write slices of the rows, in their order.

    Raises:
        UnexpectedNulls: nulls in columns the dataset requires.
        UnsupportedColumn: a column type without a logical hash.
    """
    rows = (0, *accumulate(each.rows for each in ordered.facts))
    costs = (0, *accumulate(each.cost for each in ordered.facts))
    if not rows[-1]:
        return []
    count = cut.count(costs[-1])
    outbox = way.outbox(folder, count)
    in_memory, sort = way.in_process, ordered.sort
    route: Route = partial(by_slice, cut, rows, costs)
    work: Work = partial(write_rows, plan, outbox, in_memory)
    if sort is not None:
        route = sort.layout.dealt
        work = partial(write_sorted, plan, outbox, in_memory, sort.order, sort.layout)
    slices = ordered.partitions.then(count, route, work)
    found: list[SliceFacts] = [each for facts in slices.facts() for each in facts]
    slices.release()
    ordered.partitions.release()
    nulls = NullCounts(plan.schema)
    for each in found:
        nulls.follow(each.nulls)
    nulls.check()
    for each in found:
        if each.delivered is not None:
            each.written.path = each.delivered.path
            each.written.stored = each.delivered.stored
    return [each.written for each in found]


def _sorted(
    way: Way,
    post: PostRead,
    partitions: Partitions,
    facts: Sequence[PartitionFacts],
    samples: Sequence[pa.Table],
    starts: Sequence[int],
    layout: FactLayout,
) -> OrderedRows:
    """Put all rows in order: the writers of slices sort them if they have memory for all rows of
    the ranges that a slice needs; otherwise ranges are sorted separately before. `starts` has the
    number of rows before each partition, if the rows are in the order of the input."""
    size, order = sum(each.size for each in facts), post.order
    if layout.is_fine and layout.largest(size) <= way.partition_bytes:
        sort = Sort(order.of_input if starts else order, layout)
        return OrderedRows(partitions=partitions, facts=tuple(facts), sort=sort)
    begins = bounds(samples, partition_count(way, size)) if samples else None
    if begins is None:
        return OrderedRows(partitions=partitions, facts=tuple(facts))
    ordered = partitions.then(
        begins.num_rows + 1, partial(by_order, order, begins, starts), partial(order_rows, post)
    )
    found: list[PartitionFacts] = [each for facts in ordered.facts() for each in facts]
    partitions.release()
    return OrderedRows(partitions=ordered, facts=tuple(found))


def partition_count(way: Way, size: int) -> int:
    """Return the number of partitions for rows of this size in bytes."""
    if way.in_process or fits_one_task(size):
        return 1
    return max(way.width, -(-size // way.partition_bytes))


def fits_one_task(size: int) -> bool:
    """Whether rows of this size in bytes are too few to be cut into partitions."""
    return size < SMALLEST_PARTITION_BYTES


def _is_by_event_time(post: PostRead) -> bool:
    return post.order.columns == (post.plan.vocab.event_time_column, POSITION)


def _rows_schema(post: PostRead, rows: PostRows) -> pa.Schema:
    """Return the schema of rows to be merged."""
    schema = rows.schema
    if schema is None:
        raise AssertionError("unreachable: a post without a schema has no rows to merge")
    fields = [
        pa.field(name, pa.int32())
        if name == post.plan.vocab.operation_type_column
        else schema.field(name)
        for name in rows.columns
    ]
    return pa.schema([*fields, pa.field(POSITION, pa.int64())])


def is_passing(plan: IngestPlan, history: HistoryFiles | None) -> bool:
    """Whether a row of a post is appended regardless of other rows of the post."""
    rule = MERGE[type(plan.merge)]
    return rule.passes and (history is None or rule.by_row)
