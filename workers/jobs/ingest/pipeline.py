"""The stages of an ingest in their order: what the driver knows, plans and adds up.

A post is read, merged and put in order as partitions; posts that share slices are written as one.
Where the partitions are (`workers/partitions`) changes nothing of what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from odf_node.protocol.source_options import retraction_rule

from ...merge.findings import Findings, judged
from ...merge.history import HistoryFiles
from ...merge.order import bounds
from ...merge.table import MERGE, bytes_of_all, merging_of
from ...partitions.files import at_hand
from ...partitions.port import Partitions, Way
from ...plan.ingest import IngestPlan
from ...readers.rejected import Rejected
from ...readers.splits import Split
from ...slices.columns import POSITION
from ...slices.conform import NullCounts
from ...slices.costs import Cut
from ...slices.write import SlicePlan, Written
from .stages import (
    MergeFacts,
    PostRead,
    ReadFacts,
    RowFacts,
    SliceFacts,
    by_key,
    by_order,
    by_slice,
    merge_rows,
    order_rows,
    read_rows,
    write_rows,
)

PARTITION_BYTES = 64 << 20
"""Rows of a partition that are merged or sorted at once, about."""
SMALLEST_BYTES = 4 << 20
"""Fewer are one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """Rows of a post, before they meet others."""

    rows: int
    schema: pa.Schema
    """Of the slice."""
    columns: tuple[str, ...]
    rejected: Rejected | None
    warnings: tuple[str, ...]
    ascends: bool
    """By event time, over all partitions."""
    facts: tuple[RowFacts, ...]
    """Of each partition."""
    starts: tuple[int, ...]
    """Rows before each partition."""
    samples: tuple[pa.Table, ...]
    partitions: Partitions

    @property
    def cost(self) -> int:
        return sum(each.cost for each in self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRows:
    """Rows in their final order, over partitions; `facts` has their number and cost in each."""

    partitions: Partitions
    facts: tuple[RowFacts, ...]
    warnings: tuple[str, ...] = ()


def read(way: Way, post: PostRead, splits: Sequence[Split]) -> ReadRows | None:
    """The rows of a post; None if it is empty and tells no schema.

    Raises:
        NodeError: what is wrong first in the input.
        TooManyBadRows.
        UnexpectedNulls: of rows that are all written, nulls in columns the dataset requires.
    """
    partitions = way.read(splits, partial(read_rows, post))
    facts: list[ReadFacts] = [found for each in partitions.facts() for found in each]
    told = next((each for each in facts if each.schema is not None), None)
    if told is None or told.schema is None:
        partitions.release()
        return None
    nulls = NullCounts(told.schema)
    for each in facts:
        if each.nulls_found is not None:
            nulls.follow(each.nulls_found)
    nulls.check()
    starts = (0, *accumulate(each.rows for each in facts))
    return ReadRows(
        rows=starts[-1],
        schema=told.schema,
        columns=told.columns,
        rejected=_rejected(post.max_bad_rows, facts),
        warnings=_warnings(facts),
        ascends=_ascends(facts),
        facts=tuple(facts),
        starts=starts[:-1],
        samples=tuple(
            _positioned(each.samples, start)
            for each, start in zip(facts, starts, strict=False)
            if each.samples is not None
        ),
        partitions=partitions,
    )


def in_order(way: Way, post: PostRead, rows: ReadRows, history: HistoryFiles | None) -> OrderedRows:
    """The rows merged with the history of their keys, as they will be written.

    Raises:
        CannotMerge: rows that must not be written.
    """
    if post.passes:
        if post.sorts or (rows.ascends and _is_by_event_time(post)):
            return OrderedRows(partitions=rows.partitions, facts=rows.facts)
        return _sorted(way, post, rows.partitions, rows.facts, rows.samples, rows.starts)
    if not rows.rows and (history is None or not MERGE[type(post.plan.merge)].reads_all):
        return OrderedRows(partitions=rows.partitions, facts=rows.facts)
    ranges = _count(way, rows.cost + bytes_of_all(post.plan.merge, history))
    merging = merging_of(post.plan.merge, post.plan.vocab)
    if history is not None and way.width > 1:
        files = tuple(map(way.file, map(at_hand, history.files)))
        history = replace(history, files=files, state=None)
    merged = rows.partitions.then(
        ranges,
        partial(by_key, merging.key, rows.starts, ranges),
        partial(merge_rows, post, _rows_schema(post, rows), history, ranges),
    )
    found: list[MergeFacts] = [each for facts in merged.facts() for each in facts]
    rows.partitions.release()
    findings = Findings.joined([each.findings for each in found])
    warnings = judged(findings, retraction_rule(post.plan.read.schema))
    if ranges == 1:
        return OrderedRows(partitions=merged, facts=tuple(found), warnings=warnings)
    samples = [each.samples for each in found if each.samples is not None]
    return replace(_sorted(way, post, merged, found, samples, ()), warnings=warnings)


def write(way: Way, ordered: OrderedRows, plan: SlicePlan, folder: Path, cut: Cut) -> list[Written]:
    """Slices of the rows, in their order.

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
    slices = ordered.partitions.then(
        count,
        partial(by_slice, plan.vocab.operation_type_column, cut, rows, costs),
        partial(write_rows, plan, outbox, way.width == 1),
    )
    found: list[SliceFacts] = [each for facts in slices.facts() for each in facts]
    slices.release()
    ordered.partitions.release()
    nulls = NullCounts(plan.schema)
    for each in found:
        nulls.follow(each.nulls)
    nulls.check()
    for each in found:
        if each.delivered is not None:
            each.written.path = way.received(each.delivered, outbox)
    return [each.written for each in found]


def _sorted(
    way: Way,
    post: PostRead,
    partitions: Partitions,
    facts: Sequence[RowFacts],
    samples: Sequence[pa.Table],
    starts: Sequence[int],
) -> OrderedRows:
    """All rows in order: in ranges that are sorted each by itself."""
    count = _count(way, sum(each.cost for each in facts))
    order = post.order
    begins = bounds(samples, count) if samples else None
    if begins is None:
        return OrderedRows(partitions=partitions, facts=tuple(facts))
    ordered = partitions.then(
        begins.num_rows + 1, partial(by_order, order, begins, starts), partial(order_rows, post)
    )
    found: list[RowFacts] = [each for facts in ordered.facts() for each in facts]
    partitions.release()
    return OrderedRows(partitions=ordered, facts=tuple(found))


def _positioned(keys: pa.Table, before: int) -> pa.Table:
    """Keys of which the last is the position, in the whole input."""
    at = keys.num_columns - 1
    return keys.set_column(at, keys.field(at), pc.add(keys.column(at), before))


def _count(way: Way, cost: int) -> int:
    """Partitions for rows of that cost."""
    if way.width == 1 or cost < SMALLEST_BYTES:
        return 1
    return max(way.width, -(-cost // PARTITION_BYTES))


def _is_by_event_time(post: PostRead) -> bool:
    return post.order.columns[0] == post.plan.vocab.event_time_column


def _rows_schema(post: PostRead, rows: ReadRows) -> pa.Schema:
    """Of rows that are merged."""
    fields = [
        pa.field(name, pa.int32())
        if name == post.plan.vocab.operation_type_column
        else rows.schema.field(name)
        for name in rows.columns
    ]
    return pa.schema([*fields, pa.field(POSITION, pa.int64())])


def _rejected(most: int | None, facts: Sequence[ReadFacts]) -> Rejected | None:
    """Those of all splits, by their number in the input."""
    if most is None:
        return None
    every, before = Rejected(most), 0
    for each in facts:
        every.follow(each.rejected, before)
        before += each.rows + len(each.rejected)
    return every


def _warnings(facts: Sequence[ReadFacts]) -> tuple[str, ...]:
    """What a publisher should know; of names of fields, once all records are seen."""
    names = [each.names for each in facts if each.names is not None]
    if not names:
        return tuple(dict.fromkeys(text for each in facts for text in each.warnings))
    for other in names[1:]:
        names[0].follow(other)
    return tuple(names[0].warnings())


def _ascends(facts: Sequence[ReadFacts]) -> bool:
    """Whether event times ascend over all splits, and all rows or none have one."""
    latest: int | None = None
    for each in facts:
        if not each.ascends or (
            latest is not None and each.first is not None and each.first < latest
        ):
            return False
        latest = latest if each.last is None else each.last
    return sum(each.nulls for each in facts) in (0, sum(each.rows for each in facts))


def is_passing(plan: IngestPlan, history: HistoryFiles | None) -> bool:
    """Whether all rows of a post are appended as they are."""
    return MERGE[type(plan.merge)].passes and history is None


def joined(way: Way, parts: Sequence[OrderedRows]) -> OrderedRows:
    """Rows of posts that share slices, one post after the other, all of them of that way."""
    if len(parts) == 1:
        return parts[0]
    return OrderedRows(
        partitions=way.joined([each.partitions for each in parts]),
        facts=tuple(facts for each in parts for facts in each.facts),
    )
