"""The stages of an ingest: functions of the rows of one partition, in any process.

The driver passes in what it knows; a stage returns facts to it. Stages know neither jobs nor Spark.
Each row carries its position (`POSITION`): its position in the partition until the driver knows the
number of rows in earlier partitions, and in the whole input from then on.
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
from ...merge.keys import ALL_HASHES, hashes_of, key_range, key_ranges
from ...merge.order import Order, range_of, sample, sort_indices
from ...merge.table import MERGE, check_batch, merging_of, takes_operations
from ...partitions.failure import Failure
from ...partitions.files import Delivered, Outbox, deliver, workplace
from ...partitions.messages import gathered
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
"""Rows of a batch whose keys are sampled in order to cut all rows into ranges."""
BATCH_ROWS = 65_536
LOOKUP_BYTES = 16 << 20
"""Bytes of rows whose keys are looked up together in the history: the more, the closer the hashes
are to each other, and the fewer pages of the history are read again."""
Starts = Sequence[int]
"""Total of all earlier partitions, for each partition: of rows, or of their cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRead:
    """How to read the rows of a post. `split` describes its file, `plan` the further processing."""

    plan: IngestPlan
    split: SplitRead
    cut: Cut
    history: HistoryFiles | None = None
    """The history with which the rows are compared."""
    max_bad_rows: int | None = None
    passes: bool = False
    """Whether a row is appended regardless of other rows of the post."""
    sorts: bool = False
    """Whether the partition sorts its rows: it has all rows of the post, and memory for them."""

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
    """Rows of a partition: their number, their cost in slices, their bytes in memory, and the keys
    of a sample."""

    rows: int = 0
    cost: int = 0
    size: int = 0
    samples: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts(RowFacts):
    """Facts about a split that was read; `schema` is the slice's, or None if nothing determines
    it."""

    rows_read: int = 0
    """Number of good rows that were read; `rows` counts those that remain to be processed."""
    schema: pa.Schema | None = None
    columns: tuple[str, ...] = ()
    """Columns of the batch, which may lack operation codes."""
    ascends: bool = True
    """Whether rows ascend by event time; rows without one do not count."""
    nulls: int = 0
    first: int | None = None
    last: int | None = None
    """`first` and `last` event times, in the unit of their column."""
    warnings: tuple[str, ...] = ()
    names: FieldsSeen | None = None
    nulls_found: NullCounts | None = None
    """Nulls in required columns, if all rows are written."""
    rejected: tuple[RejectedRow, ...] = ()
    failure: Failure | None = None
    """The error in the split; its rows must not be used then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFacts(RowFacts):
    findings: Findings = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFacts:
    """A slice that was written, and the nulls in its required columns."""

    written: Written
    nulls: NullCounts
    delivered: Delivered | None
    """None if the slice is in memory, or was not written because of its nulls."""


@dataclass(slots=True)
class _Totals:
    """Sums facts of rows while they pass."""

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
    """Counts nulls in required columns, except those columns that are filled when rows are
    written."""

    def __init__(self, schema: pa.Schema, vocab: Vocab, names: Sequence[str]) -> None:
        self._names = [name for name in names if name not in vocab.columns]
        self.nulls = NullCounts(pa.schema([schema.field(name) for name in self._names]))

    def passed(self, batches: Batches) -> Batches:
        for batch in batches:
            self.nulls.count(batch.select(self._names))
            yield batch


def read_part(posts: Sequence[PostRead], part: tuple[int, Split]) -> Output:
    """Return the rows of a split of one of the posts. An error is returned as a fact, so that other
    posts continue."""
    number, split = part
    try:
        yield from read_rows(posts[number], split)
    except OSError:  # an error of the machine or the bucket, not of the post
        raise
    except Exception as error:
        yield ReadFacts(failure=Failure.of(error))


def read_rows(read: PostRead, split: Split) -> Output:
    """Read the rows of a split in the types of their slice. For a post that is sorted here, yield
    either all rows or none.

    Raises:
        NodeError: a row, or the head of the file, is wrong; the error has the position in the file.
        UnexpectedNulls: a post that is sorted here has nulls in columns that the dataset requires.
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
            typed = _timed(found.passed(_unknown(typed, read)), plan)
        if read.sorts:
            every = list(typed)
            found.nulls.check()
            typed = _in_order(every, read.order)
        yield from totals.passed(typed)
        yield ReadFacts(
            rows=totals.rows,
            rows_read=rows.seen.rows,
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
    """Put the columns in the order and types of the slice, whatever their order in the batch."""
    merging = merging_of(plan.merge, plan.vocab)
    for batch in batches:
        rows = pa.table(batch).select([*_known(schema, batch.schema), POSITION])
        yield from in_slice_types(rows, schema, merging).to_batches()


def _unknown(batches: Batches, read: PostRead) -> Batches:
    """Leave out rows that the history has, if the history alone decides about them."""
    if read.history is None:
        yield from batches
        return
    merging = merging_of(read.plan.merge, read.plan.vocab)
    merge, history = MERGE[type(read.plan.merge)].merge, read.history.opened(0, ALL_HASHES)
    for batch in gathered(batches, LOOKUP_BYTES):
        yield from merge(merging, pa.table(batch), history).rows.to_batches()


def _timed(batches: Batches, plan: IngestPlan) -> Batches:
    """Fill missing event times with the post's time, since rows of other posts may follow in the
    slice."""
    name = plan.vocab.event_time_column
    for batch in batches:
        at = batch.schema.get_field_index(name)
        times = filled(batch.column(at), plan.source_event_time)
        yield batch.set_column(at, batch.schema.field(at), times)


def _known(schema: pa.Schema, batch: pa.Schema) -> list[str]:
    return [name for name in schema.names if name in batch.names]


def _in_order(every: list[pa.RecordBatch], order: Order) -> Batches:
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


def appended(batch: pa.RecordBatch, op: str) -> pa.RecordBatch:
    """Add operation codes of appends to the rows."""
    codes = pa.array(np.full(batch.num_rows, int(Operation.APPEND), np.int32))
    return pa.RecordBatch.from_arrays([codes, *batch.columns], [op, *batch.schema.names])


def without_position(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name != POSITION])


def numbered(batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    """Change the positions to positions in the whole input."""
    at = batch.schema.get_field_index(POSITION)
    positions = batch.column(at).to_numpy(zero_copy_only=False) + before
    return batch.set_column(at, batch.schema.field(at), pa.array(positions, pa.int64()))


def by_key(
    key: Sequence[str], starts: Starts, ranges: int, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Assign rows to ranges by the hash of their key."""
    for batch in batches:
        rows = numbered(batch, starts[number])
        yield from _dealt(rows, key_range(hashes_of(pa.table(rows), key), ranges))


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
    """Assign rows to ranges by their final order."""
    for batch in batches:
        rows = numbered(batch, starts[number]) if starts else batch
        yield from _dealt(rows, range_of(pa.table(rows), order, begins))


def order_rows(read: PostRead, _: int, batches: Batches) -> Output:
    """Sort the rows of a range."""
    totals = _Totals(read.cut)
    yield from totals.passed(_in_order(list(batches), read.order))
    yield RowFacts(rows=totals.rows, cost=totals.cost, size=totals.size)


def to_one_slice(
    op: str, starts: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Assign all rows to one slice, whose writer sorts them."""
    for batch in batches:
        rows = numbered(batch, starts[number]) if starts else batch
        yield 0, rows if op in rows.schema.names else appended(rows, op)


def by_slice(
    op: str, cut: Cut, rows: Starts, costs: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Assign rows to slices; the position of each row becomes its number among all rows."""
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
    """Write the only slice, from rows in any order. Raises the same errors as `write_rows`."""
    yield _written(plan, outbox, in_memory, _in_order(list(batches), order))


def write_rows(
    plan: SlicePlan, outbox: Outbox, in_memory: bool, _: int, batches: Batches
) -> Output:
    """Write one slice.

    Raises:
        UnsupportedColumn: a column type without a logical hash.
    """
    if (first := next(batches, None)) is not None:
        start = plan.start + first.column(POSITION)[0].as_py()
        yield _written(replace(plan, start=start), outbox, in_memory, chain([first], batches))


def _written(plan: SlicePlan, outbox: Outbox, in_memory: bool, batches: Batches) -> SliceFacts:
    """Write a slice under a unique name: a task may run twice at the same time."""
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
    """Split rows by the number of their partition, keeping their order."""
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
