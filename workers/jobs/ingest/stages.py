"""The stages of an ingest: functions of the rows of one partition, wherever that is.

They are given what the driver knows by now, and tell it facts; they know no job and no Spark.
Rows carry the position of theirs in the input (`POSITION`): in its partition until the driver
knows how many rows come before that, in all of the input from then on.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odf_node.protocol.arrow_schema import to_arrow
from odf_node.protocol.chain.state import Vocab

from ...merge.changes import in_slice_types
from ...merge.findings import NOTHING, Findings
from ...merge.history import HistoryFiles
from ...merge.keys import hashes_of, key_range, key_ranges
from ...merge.order import Order, range_of, sample, sort_indices
from ...merge.table import MERGE, check_batch, merging_of, takes_operations
from ...partitions.failure import Failure
from ...partitions.files import Delivered, Outbox, deliver, workplace
from ...partitions.port import Batches, Output
from ...plan.ingest import IngestPlan
from ...readers.fields_seen import FieldsSeen
from ...readers.forms import forms_of
from ...readers.read_split import SplitRead, open_split
from ...readers.rejected import Rejected, RejectedRow
from ...readers.splits import Split
from ...slices.columns import POSITION, Operation
from ...slices.conform import NullCounts
from ...slices.costs import Cut, in_slices, row_costs
from ...slices.millis import filled
from ...slices.schema import slice_schema
from ...slices.write import SlicePlan, Written, write_slice
from .normalize import normalized
from .undeclared import arranged

SAMPLES = 64
"""Rows of a batch whose keys are looked at to cut all rows into ranges."""
BATCH_ROWS = 65_536
Starts = Sequence[int]
"""What comes before each partition: rows, or their cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRead:
    """How the rows of a post are read. `split` is how its file is, `plan` what becomes of it."""

    plan: IngestPlan
    split: SplitRead
    cut: Cut
    max_bad_rows: int | None = None
    passes: bool = False
    """Whether every row is appended, whatever others there are."""
    sorts: bool = False
    """Whether a partition has all rows of the post and memory for them, and puts them in order."""

    @property
    def order(self) -> Order:
        merging = merging_of(self.plan.merge, self.plan.vocab)
        columns = MERGE[type(self.plan.merge)].order(merging)
        if self.passes:  # all rows have one operation code, and none yet
            columns = tuple(name for name in columns if name != merging.op)
        return Order(
            columns=columns,
            event_time=self.plan.vocab.event_time_column,
            fallback=self.plan.source_event_time,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """Rows of a partition: how many, what they cost in slices, their bytes in memory, and keys of
    some of them."""

    rows: int = 0
    cost: int = 0
    size: int = 0
    samples: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts(RowFacts):
    """What was read of a split; `schema` is the slice's, None if there is nothing to tell it by."""

    schema: pa.Schema | None = None
    columns: tuple[str, ...] = ()
    """Those of the batch, which may lack operation codes."""
    ascends: bool = True
    """By event time; rows without one stand where the others do not."""
    nulls: int = 0
    first: int | None = None
    last: int | None = None
    """Event times, in the unit of their column."""
    warnings: tuple[str, ...] = ()
    names: FieldsSeen | None = None
    nulls_found: NullCounts | None = None
    """Where none may be, of rows that are all written."""
    rejected: tuple[RejectedRow, ...] = ()
    failure: Failure | None = None
    """What is wrong with the split; its rows are not to be used then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFacts(RowFacts):
    findings: Findings = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFacts:
    """A slice that was written, and nulls where none may be."""

    written: Written
    nulls: NullCounts
    delivered: Delivered | None
    """None: the slice is in memory, or was not written for its nulls."""


@dataclass(slots=True)
class _Totals:
    """Facts of rows as they pass."""

    cut: Cut
    order: Order | None = None
    rows: int = 0
    cost: int = 0
    size: int = 0
    samples: list[pa.Table] = field(default_factory=list)

    def passed(self, batches: Batches) -> Batches:
        for batch in batches:
            self.rows += batch.num_rows
            self.size += batch.nbytes
            self.cost += int(row_costs(without_position(batch), self.cut).sum())
            if self.order is not None and batch.num_rows:
                self.samples.append(sample(pa.table(batch), self.order, SAMPLES))
            yield batch

    def keys(self) -> pa.Table | None:
        return pa.concat_tables(self.samples) if self.samples else None


class _Required:
    """Nulls in columns that are required, but for those that are filled once rows are written."""

    def __init__(self, schema: pa.Schema, vocab: Vocab, names: Sequence[str]) -> None:
        self._names = [name for name in names if name not in vocab.columns]
        self.nulls = NullCounts(pa.schema([schema.field(name) for name in self._names]))

    def passed(self, batches: Batches) -> Batches:
        for batch in batches:
            self.nulls.count(batch.select(self._names))
            yield batch


def read_part(posts: Sequence[PostRead], part: tuple[int, Split]) -> Output:
    """Rows of a split of one of the posts. What is wrong with it is a fact: other posts go on."""
    number, split = part
    try:
        yield from read_rows(posts[number], split)
    except OSError:  # of the machine or the bucket, and not of the post
        raise
    except Exception as error:
        yield ReadFacts(failure=Failure.of(error))


def read_rows(read: PostRead, split: Split) -> Output:
    """Rows of a split in the types of their slice. Of a post that is sorted here, either all come
    or none.

    Raises:
        NodeError: a row, or the head of the file, is wrong; where, is told as it is in the file.
        UnexpectedNulls: of a post that is sorted here, nulls in columns the dataset requires.
    """
    plan, most = read.plan, read.max_bad_rows
    rejected = None if most is None else Rejected(most, lines=split.lines)
    with open_split(read.split, split, rejected) as frame:
        if frame is None:
            yield ReadFacts()
            return
        known = to_arrow(plan.schema) if plan.schema is not None else None
        rows = normalized(
            arranged(frame, plan),
            vocab=plan.vocab,
            coerces=plan.coerces,
            takes_operations=takes_operations(plan.merge),
            known=known,
            rejected=rejected,
            forms=forms_of(plan.read),
        )
        schema = slice_schema(rows.schema, plan.vocab, known)
        totals = _Totals(read.cut, read.order if read.passes and not read.sorts else None)
        check_batch(plan.merge, merging_of(plan.merge, plan.vocab), rows.schema)
        found = _Required(schema, plan.vocab, rows.schema.names)
        typed = _typed(rows.batches, schema, plan)
        if read.passes:
            typed = _timed(found.passed(typed), plan)
        if read.sorts:
            every = list(typed)
            found.nulls.check()
            typed = _in_order(every, read.order)
        yield from totals.passed(typed)
        yield ReadFacts(
            rows=totals.rows,
            cost=totals.cost,
            size=totals.size,
            samples=totals.keys(),
            schema=schema,
            columns=tuple(_known(schema, rows.schema)),
            ascends=read.sorts or rows.seen.ascending,
            nulls=rows.seen.nulls,
            first=rows.seen.first,
            last=rows.seen.latest,
            warnings=tuple(frame.warnings),
            names=frame.names,
            nulls_found=found.nulls,
            rejected=() if rejected is None else tuple(rejected.rows()),
        )


def _typed(batches: Batches, schema: pa.Schema, plan: IngestPlan) -> Batches:
    """Columns in the order of the slice, whatever theirs was in the batch."""
    merging = merging_of(plan.merge, plan.vocab)
    for batch in batches:
        rows = pa.table(batch).select([*_known(schema, batch.schema), POSITION])
        yield from in_slice_types(rows, schema, merging).to_batches()


def _timed(batches: Batches, plan: IngestPlan) -> Batches:
    """Rows without an event time get their post's: rows of other posts may follow in the slice."""
    name = plan.vocab.event_time_column
    for batch in batches:
        at = batch.schema.get_field_index(name)
        times = filled(batch.column(at), plan.source_event_time)
        yield batch.set_column(at, batch.schema.field(at), times)


def _known(schema: pa.Schema, batch: pa.Schema) -> list[str]:
    return [name for name in schema.names if name in batch.names]


def _in_order(every: list[pa.RecordBatch], order: Order) -> Batches:
    """All rows, sorted unless they are."""
    if every:
        yield from sorted_rows(pa.Table.from_batches(every), order)


def sorted_rows(table: pa.Table, order: Order) -> Batches:
    at = sort_indices(table, order)
    ascends = bool((np.diff(at.to_numpy()) == 1).all())
    yield from (table if ascends else table.take(at)).to_batches(BATCH_ROWS)


def appended(batch: pa.RecordBatch, op: str) -> pa.RecordBatch:
    """The rows as appends."""
    codes = pa.array(np.full(batch.num_rows, int(Operation.APPEND), np.int32))
    return pa.RecordBatch.from_arrays([codes, *batch.columns], [op, *batch.schema.names])


def without_position(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name != POSITION])


def numbered(batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    """The rows with positions in the whole input."""
    at = batch.schema.get_field_index(POSITION)
    positions = batch.column(at).to_numpy(zero_copy_only=False) + before
    return batch.set_column(at, batch.schema.field(at), pa.array(positions, pa.int64()))


def by_key(
    key: Sequence[str], starts: Starts, ranges: int, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows to the range of their key's hash."""
    for batch in batches:
        rows = numbered(batch, starts[number])
        yield from _dealt(rows, key_range(hashes_of(pa.table(rows), key), ranges))


def merge_rows(
    read: PostRead,
    schema: pa.Schema,
    history: HistoryFiles | None,
    ranges: int,
    number: int,
    batches: Batches,
) -> Output:
    """Rows of a range of key hashes, of that schema, merged with the history of that range."""
    merging, plan = merging_of(read.plan.merge, read.plan.vocab), read.plan
    every = list(batches)
    rule = MERGE[type(plan.merge)]
    if not every and not (rule.reads_all and history is not None):
        yield MergeFacts()
        return
    known = None if history is None else history.opened(*key_ranges(ranges)[number])
    rows = pa.Table.from_batches(every) if every else schema.empty_table()
    merged = rule.merge(merging, rows, known)
    totals = _Totals(read.cut, read.order)
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


def by_order(
    order: Order, begins: pa.Table, starts: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows to the range in which they come when all are in order."""
    for batch in batches:
        rows = numbered(batch, starts[number]) if starts else batch
        yield from _dealt(rows, range_of(pa.table(rows), order, begins))


def order_rows(read: PostRead, _: int, batches: Batches) -> Output:
    """Rows of a range, in order."""
    totals = _Totals(read.cut)
    yield from totals.passed(_in_order(list(batches), read.order))
    yield RowFacts(rows=totals.rows, cost=totals.cost, size=totals.size)


def to_one_slice(
    op: str, starts: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """All rows to one slice, in which they are put in order."""
    for batch in batches:
        rows = numbered(batch, starts[number]) if starts else batch
        yield 0, rows if op in rows.schema.names else appended(rows, op)


def by_slice(
    op: str, cut: Cut, rows: Starts, costs: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows to their slice, with the number of each among all rows as its position."""
    before, cost = rows[number], costs[number]
    is_one = cut.count(costs[-1]) == 1
    for batch in batches:
        data = without_position(batch)
        whole = data if op in data.schema.names else appended(data, op)
        at = pa.array(np.arange(before, before + batch.num_rows, dtype=np.int64))
        placed = whole.append_column(POSITION, at)
        before += batch.num_rows
        if is_one:
            yield 0, placed
            continue
        each = row_costs(data, cut)
        yield from in_slices(placed, each, cost, cut)
        cost += int(each.sum())


def write_sorted(
    plan: SlicePlan, outbox: Outbox, in_memory: bool, order: Order, _: int, batches: Batches
) -> Output:
    """The only slice, of rows in any order. Raises as `write_rows`."""
    yield _written(plan, outbox, in_memory, _in_order(list(batches), order))


def write_rows(
    plan: SlicePlan, outbox: Outbox, in_memory: bool, _: int, batches: Batches
) -> Output:
    """A slice.

    Raises:
        UnsupportedColumn: a column type without a logical hash.
    """
    if (first := next(batches, None)) is not None:
        start = plan.start + first.column(POSITION)[0].as_py()
        yield _written(replace(plan, start=start), outbox, in_memory, chain([first], batches))


def _written(plan: SlicePlan, outbox: Outbox, in_memory: bool, batches: Batches) -> SliceFacts:
    """Under a name of its own: a task may run twice at once."""
    path = workplace(outbox) / f"slice-{plan.start}-{secrets.token_hex(8)}.parquet"
    nulls = NullCounts(plan.schema)
    rows = map(without_position, batches)
    written = write_slice(rows, plan, path, nulls, in_memory=in_memory)
    on_disk = written.data is not None and written.content is None
    delivered = deliver(path, outbox) if on_disk else None
    return SliceFacts(written=written, nulls=nulls, delivered=delivered)


def _dealt(
    batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows by the number of their partition, in their order."""
    if not len(numbers):
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), batch
        return
    order = np.argsort(numbers, kind="stable")
    rows = batch.take(pa.array(order))
    of, starts = np.unique(numbers[order], return_index=True)
    for number, start, end in zip(of, starts, [*starts[1:], len(order)], strict=True):
        yield int(number), rows.slice(int(start), int(end - start))
