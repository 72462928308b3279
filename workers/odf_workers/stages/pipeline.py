"""The stages of an ingest in their order, and what the driver plans and sums between them.

Rows of the posts of a Batch are merged, sorted, and written together. The result does not depend on
where the partitions (`odf_workers/partitions`) are processed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from odf_protocol.source_options import options_of

from ..merge.findings import Findings, judged
from ..merge.history import HistoryFiles
from ..merge.order import Order, bounds
from ..merge.table import MERGE, bytes_of_all, merging_of
from ..partitions.port import Partitions, Route, Way, Work
from ..partitions.task_memory import SMALLEST_PARTITION_BYTES
from ..plan.ingest import IngestPlan
from ..slices.columns import POSITION
from ..slices.conform import NullCounts
from ..slices.costs import Cut
from ..slices.write import SlicePlan, Written
from .facts import MergeFacts, RowFacts, SliceFacts
from .layout import Layout
from .merge import by_key, merge_rows
from .order import by_order, order_rows
from .post_read import PostRead
from .read_posts import PostRows, ReadRows
from .write import by_slice, write_rows, write_sorted

RANGES_PER_SLICE = 16
"""Ranges of keys for each expected slice: writers receive a range twice if two slices share it."""
MOST_RANGES = 256


@dataclass(frozen=True, slots=True)
class Sort:
    """Writers of slices still have to sort the rows."""

    order: Order
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRows:
    """Rows in their final order, over partitions; `facts` has the number and cost of the rows in
    each."""

    partitions: Partitions
    facts: tuple[RowFacts, ...]
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
        layout = Layout.of_one(post.cut, counts, cost)
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


def _layout(cut: Cut, facts: Sequence[MergeFacts]) -> Layout:
    """Return the layout of the ranges of keys; one range if a partition is not cut."""
    (count, *more) = {len(each.ranges) for each in facts if each.rows} or {0}
    if more or not count:
        return Layout.of_one(cut, [each.rows for each in facts], sum(each.cost for each in facts))
    ranges = [each.ranges or ((0, 0),) * count for each in facts]
    return Layout(
        cut=cut,
        parts=tuple(tuple(rows for rows, _ in each) for each in ranges),
        costs=tuple(sum(cost for _, cost in each) for each in zip(*ranges, strict=True)),
    )


def write(way: Way, ordered: OrderedRows, plan: SlicePlan, folder: Path, cut: Cut) -> list[Written]:
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
    facts: Sequence[RowFacts],
    samples: Sequence[pa.Table],
    starts: Sequence[int],
    layout: Layout,
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
    found: list[RowFacts] = [each for facts in ordered.facts() for each in facts]
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
