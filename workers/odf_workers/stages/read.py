"""The first stage: the rows of a split, in the types of their slice.

How the stages process a post.

The stage that sorts rows in their final order, and sorting in other stages.

Batches of sources without a declared schema: the dataset's schema, once it exists, applies.

The first batch determines columns and types. Later batches may have their columns in another order,
another format, or only whole numbers in a column of fractions.

Columns that a batch adds to its dataset: the plan of the batch, on the schema that they extend.

The head of the batch is read once before the stages, so that these, and the history with which rows
are compared, know the new columns as all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from msgspec import structs

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_schema import from_arrow, to_arrow
from odf_protocol.columns.column_names import name_remarks
from odf_protocol.errors import BadInput
from odf_protocol.metadata.schema import DataField, DataSchema
from odf_protocol.metadata.sources import ReadStepCsv, ReadStepParquet
from odf_protocol.sources.csv_header import key_of_name

from ..merge.history import ALL_HASHES, HistoryFiles, coded, in_slice_types
from ..merge.strategies import (
    MERGE,
    MergeOrder,
    check_batch,
    merging_of,
    range_of,
    sort_indices,
    takes_operations,
)
from ..partitions.messages import Failure, gathered
from ..partitions.port import Batches, Output
from ..plan.ingest import IngestPlan
from ..readers.formats.read import SplitRead, open_split
from ..readers.formats.splits import ReaderSplit
from ..readers.values.features import Known, loosened
from ..readers.values.forms import forms_of
from ..readers.values.rejected import Rejected, RejectedRow
from ..slices.conform import NullCounts, may_forbid_nulls
from ..slices.costs import SliceCut
from ..slices.schema import (
    POSITION,
    Frame,
    Operation,
    check_known,
    filled,
    lacking,
    shown_names,
    slice_schema,
)
from .facts import Ahead, PartitionFacts, ReadFacts, Starts, Totals, dealt, numbered
from .normalize import Normalized, SeenValues, clashing, normalized


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRead:
    """How to read the rows of a post. `split` describes its file, `plan` the further processing."""

    plan: IngestPlan
    split: SplitRead
    cut: SliceCut
    history: HistoryFiles | None = None
    """The history with which the rows are compared."""
    max_bad_rows: int | None = None
    passes: bool = False
    """Whether a row is appended regardless of other rows of the post."""
    sorts: bool = False
    """Whether the partition sorts its rows: it has all rows of the post, and memory for them."""
    is_alone: bool = False
    """Whether one process runs all stages, so that rows are not cut into ranges."""

    @property
    def key_order(self) -> MergeOrder:
        """The beginning of the order of rows that are merged: their key."""
        return replace(self.order, columns=merging_of(self.plan.merge, self.plan.vocab).key)

    @property
    def order(self) -> MergeOrder:
        merging = merging_of(self.plan.merge, self.plan.vocab)
        columns = MERGE[type(self.plan.merge)].order(merging)
        if self.passes:  # all rows have one operation code, and none yet
            columns = tuple(name for name in columns if name != merging.op)
        return MergeOrder(
            columns=columns,
            event_time=self.plan.vocab.event_time_column,
            fallback=self.plan.source_event_time,
        )


BATCH_ROWS = 65_536


def all_sorted(every: list[pa.RecordBatch], order: MergeOrder) -> Batches:
    """Return all rows, sorted if they are not yet."""
    if every:
        yield from sorted_rows(pa.Table.from_batches(every), order)


def sorted_rows(table: pa.Table, order: MergeOrder) -> Batches:
    if table.num_rows < 2:
        yield from table.to_batches()
        return
    at = sort_indices(table, order)
    ascends = bool((np.diff(at.to_numpy()) == 1).all())
    yield from (table if ascends else table.take(at)).to_batches(BATCH_ROWS)


def by_order(
    order: MergeOrder, begins: pa.Table, starts: Starts, number: int, batches: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Assign rows to ranges by their final order."""
    for batch in batches:
        rows = numbered(batch, starts[number]) if starts else batch
        yield from dealt(rows, range_of(pa.table(rows), order, begins))


def order_rows(read: PostRead, _: int, batches: Batches) -> Output:
    """Sort the rows of a range."""
    totals = Totals(read.cut)
    yield from totals.passed(all_sorted(list(batches), read.order))
    yield PartitionFacts(rows=totals.rows, cost=totals.cost, size=totals.size)


def known_of(plan: IngestPlan) -> Known | None:
    """Return the dataset's columns, for a batch whose source does not declare them.

    The event time is not included: separate rules convert whole numbers and texts to times.
    """
    if plan.declares or plan.schema is None:
        return None
    schema, vocab = to_arrow(plan.schema), plan.vocab
    own = {vocab.offset_column, vocab.system_time_column, vocab.event_time_column}
    operations = takes_operations(plan.merge)
    if not operations:
        own.add(vocab.operation_type_column)
    fields = {}
    clashes = clashing(vocab, takes_operations=operations)
    for field in schema:
        if field.name in own:
            continue
        is_operation = field.name == vocab.operation_type_column
        fields[field.name] = field.with_nullable(False) if is_operation else field
        for name in clashes:
            if f"_{name}" == field.name:
                fields[name] = fields.pop(field.name)
    return Known(fields, vocab.event_time_column)


LOOKUP_BYTES = 16 << 20
"""Bytes of rows whose keys are looked up together in the history: the more, the closer the hashes
are to each other, and the fewer pages of the history are read again."""


class _Required:
    """Counts nulls in required columns, except those columns that are filled when rows are
    written."""

    def __init__(self, schema: pa.Schema, vocab: Vocab, names: Sequence[str]) -> None:
        fields = [schema.field(name) for name in names if name not in vocab.columns]
        required = [each for each in fields if may_forbid_nulls(each)]
        self._names = [each.name for each in required]
        self.nulls = NullCounts(pa.schema(required))

    def passed(self, batches: Batches) -> Batches:
        for batch in batches:
            if self._names:
                self.nulls.count(batch.select(self._names))
            yield batch


def read_part(posts: Sequence[PostRead], part: tuple[int, ReaderSplit]) -> Output:
    """Return the rows of a split of one of the posts. An error is returned as a fact, so that other
    posts continue."""
    number, split = part
    most = posts[number].max_bad_rows
    rejected = None if most is None else Rejected(most, lines=split.lines)
    try:
        yield from read_rows(posts[number], split, rejected)
    except OSError:  # an error of the machine or the bucket, not of the post
        raise
    except Exception as error:
        yield ReadFacts(failure=Failure.of(error), rejected=_rows(rejected))


def read_rows(read: PostRead, split: ReaderSplit, rejected: Rejected | None) -> Output:
    """Read the rows of a split in the types of their slice. For a post that is sorted here, yield
    either all rows or none.

    Raises:
        NodeError: a row, or the head of the file, is wrong; the error has the position in the file.
        UnexpectedNulls: a post that is sorted here has nulls in columns that the dataset requires.
    """
    plan = read.plan
    with open_split(read.split, split, rejected) as frame:
        if frame is None:
            yield ReadFacts()
            return
        known = known_schema(plan)
        rows = rows_of(frame, plan, rejected, before=split.rows)
        schema = slice_schema(rows.schema, plan.vocab, known)
        totals = Totals(read.cut, _sampled(read))
        check_batch(plan.merge, merging_of(plan.merge, plan.vocab), rows.schema)
        found = _Required(schema, plan.vocab, rows.schema.names)
        typed = _typed(rows.batches, schema, plan)
        if read.passes:
            typed = _timed(found.passed(_appended(typed, read)), plan)
        if read.sorts:
            every = list(typed)
            found.nulls.check()
            typed = all_sorted(every, read.order.of_input)
        yield from totals.passed(typed)
        _check_read(frame, plan)
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
            ahead=_ahead(rows.seen, plan),
            warnings=tuple(frame.warnings),
            remarks=tuple(rows.remarks),
            names=frame.names,
            nulls_found=found.nulls,
            rejected=_rows(rejected),
        )


def _check_read(frame: Frame, plan: IngestPlan) -> None:
    """Refuse rows that the merge would take for others. Call this when all rows are read."""
    _check_operations(frame, plan)
    _check_keys(frame, plan)


def _check_operations(frame: Frame, plan: IngestPlan) -> None:
    """Refuse rows that say what happened to them where the source would not hear it: a row that is
    taken back would be added."""
    name = plan.vocab.operation_type_column
    if not takes_operations(plan.merge):
        return
    if name in frame.left_out or (frame.names is not None and frame.names.left_out(name)):
        raise BadInput(
            "CannotMerge",
            f"rows have the operation column `{name}`, which says whether a row is taken back, and "
            f"the source does not declare it: declare `{name}` as an optional Int32, or leave it "
            "out of the rows",
            column=name,
        )


def _check_keys(frame: Frame, plan: IngestPlan) -> None:
    """Refuse rows whose key lost a fraction: it became the key of another row."""
    for name in merging_of(plan.merge, plan.vocab).key:
        if name in frame.cut:
            raise BadInput(
                "CannotMerge",
                f"key column `{name}` is of whole numbers, and rows have {frame.cut[name]}: cut, "
                "it would be the key of another row; send whole numbers",
                column=name,
            )


def known_schema(plan: IngestPlan) -> pa.Schema | None:
    return None if plan.schema is None else to_arrow(plan.schema)


def rows_of(
    frame: Frame, plan: IngestPlan, rejected: Rejected | None = None, *, before: int = 0
) -> Normalized:
    """Return the rows of a frame in the form in which they are merged. Raises as `normalized`."""
    rows = normalized(
        frame,
        vocab=plan.vocab,
        coerces=plan.coerces,
        takes_operations=takes_operations(plan.merge),
        known=known_schema(plan),
        rejected=rejected,
        forms=forms_of(plan.read),
        before=before,
        nulls_are_text=plan.coerces and isinstance(plan.read, ReadStepParquet),
        latest=plan.latest,
    )
    return _completed(rows, plan) if plan.declares else rows


NOT_DECLARED = "columns of the dataset that the source does not name are null: {}"


def _completed(rows: Normalized, plan: IngestPlan) -> Normalized:
    """Add the optional columns of the dataset that a source does not declare, without values: the
    dataset may have got them by another source."""
    merging = merging_of(plan.merge, plan.vocab)
    named = (*merging.key, *(merging.compare or ()))
    absent = lacking(rows.schema, plan.vocab, known_schema(plan), named=named)
    if not absent:
        return rows
    rows.remarks[NOT_DECLARED.format(shown_names([field.name for field in absent]))] = None
    schema = pa.schema([*rows.schema, *absent])
    return replace(rows, schema=schema, batches=_with_nulls(rows.batches, absent))


def _with_nulls(batches: Iterator[pa.RecordBatch], absent: Sequence[pa.Field]) -> Batches:
    for batch in batches:
        nulls = [pa.nulls(batch.num_rows, field.type) for field in absent]
        names = [*batch.schema.names[:-1], *(field.name for field in absent), POSITION]
        columns = [*batch.columns[:-1], *nulls, batch.columns[-1]]
        yield pa.RecordBatch.from_arrays(columns, names)


def _ahead(seen: SeenValues, plan: IngestPlan) -> Ahead:
    """Return the rows that are too far ahead, those that get the time of the post included."""
    if seen.nulls and plan.source_event_time > plan.latest:
        return seen.ahead + Ahead(seen.nulls, plan.source_event_time)
    return seen.ahead


def _rows(rejected: Rejected | None) -> tuple[RejectedRow, ...]:
    return () if rejected is None else tuple(rejected.rows())


def _sampled(read: PostRead) -> MergeOrder | None:
    """Return the columns to be sampled, by which rows will be cut into ranges."""
    if read.passes:
        return None if read.sorts else read.order
    return None if read.is_alone else read.key_order


def _typed(batches: Batches, schema: pa.Schema, plan: IngestPlan) -> Batches:
    """Put the columns in the order and types of the slice, whatever their order in the batch."""
    merging = merging_of(plan.merge, plan.vocab)
    for batch in batches:
        rows = batch.select([*_known(schema, batch.schema), POSITION])
        yield in_slice_types(rows, schema, merging)


def _appended(batches: Batches, read: PostRead) -> Batches:
    """Add the operation codes of appends, and leave out rows that the history has, if the history
    alone decides about them."""
    merging = merging_of(read.plan.merge, read.plan.vocab)
    if read.history is None:
        for batch in batches:
            yield from coded(merging, pa.table(batch), Operation.APPEND).to_batches()
        return
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
    names = set(batch.names)
    return [name for name in schema.names if name in names]


def with_added_columns(plan: IngestPlan, frame: Frame) -> tuple[IngestPlan, tuple[str, ...]]:
    """Return the plan with the columns of the frame that the dataset lacks: optional, after all
    others; and remarks on them for the publisher. A first batch makes the schema itself.

    Raises:
        BadInputSchema: a new column has no values, or values that cannot be stored.
    """
    if plan.schema is None:
        return plan, ()
    names = {field.name for field in plan.schema.fields} | set(plan.vocab.columns)
    rows = rows_of(frame, plan)
    new = [field for field in rows.schema if field.name not in names]
    for field in new:
        check_known(field, "leave it out until it has values")
    if not new:
        return plan, ()
    every = [*(field.name for field in plan.schema.fields), *(field.name for field in new)]
    remarks = dict.fromkeys([*rows.remarks, *name_remarks(every)])
    return replace(plan, schema=_extended(plan.schema, new)), tuple(remarks)


def with_declared_columns(plan: IngestPlan, found: pa.Schema) -> tuple[IngestPlan, tuple[str, ...]]:
    """Return the plan of a source that declares its columns by a schema, which gets the `found`
    columns of the batch that it lacks, as does the dataset; and remarks. A header of CSV that lacks
    declared columns names none by which others are new.

    Raises:
        BadInputSchema: a new column has no values, or values that cannot be stored.
    """
    declared = plan.read.schema
    assert declared is not None  # noqa: S101 - the caller looked
    named = key_of_name if isinstance(plan.read, ReadStepCsv) else str
    names = {named(field.name) for field in declared.fields}
    if isinstance(plan.read, ReadStepCsv) and not names <= set(map(named, found.names)):
        return plan, ()
    known = names | set(map(named, plan.vocab.columns))
    new = [field for field in found if named(field.name) not in known]
    for field in new:
        check_known(field, "leave it out until it has values")
    if not new:
        return plan, ()
    stored = () if plan.schema is None else plan.schema.fields
    old = {field.name: field for field in stored}
    fields = [old.get(field.name, added) for field, added in zip(new, _optional(new), strict=True)]
    read = structs.replace(declared, fields=(*declared.fields, *fields))
    added = tuple(field for field in fields if field.name not in old)
    schema = plan.schema and structs.replace(plan.schema, fields=(*stored, *added))
    every = dict.fromkeys(field.name for field in (*stored, *read.fields))
    grown = replace(plan, read=structs.replace(plan.read, schema=read), schema=schema)
    return grown, tuple(dict.fromkeys(name_remarks([*every])))


def _extended(schema: DataSchema, new: list[pa.Field]) -> DataSchema:
    return structs.replace(schema, fields=(*schema.fields, *_optional(new)))


def _optional(new: list[pa.Field]) -> tuple[DataField, ...]:
    optional = [field.with_type(loosened(field.type)).with_nullable(True) for field in new]
    return from_arrow(pa.schema(optional)).fields
