"""The first stage: the rows of a split, in the types of their slice."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from odf_protocol.arrow_schema import to_arrow
from odf_protocol.chain.state import Vocab
from odf_protocol.metadata.reading import ReadStepParquet

from ..merge.changes import coded, in_slice_types
from ..merge.keys import ALL_HASHES
from ..merge.order import Order
from ..merge.table import MERGE, check_batch, merging_of, takes_operations
from ..partitions.failure import Failure
from ..partitions.messages import gathered
from ..partitions.port import Batches, Output
from ..plan.ingest import IngestPlan
from ..readers.forms import forms_of
from ..readers.read_split import open_split
from ..readers.rejected import Rejected, RejectedRow
from ..readers.splits import Split
from ..slices.columns import POSITION, Operation
from ..slices.conform import NullCounts, may_forbid_nulls
from ..slices.frame import Frame
from ..slices.millis import filled
from ..slices.schema import slice_schema
from .facts import Ahead, ReadFacts, Totals
from .normalize import Normalized, Seen, normalized
from .order import all_sorted
from .post_read import PostRead
from .undeclared import arranged

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


def read_part(posts: Sequence[PostRead], part: tuple[int, Split]) -> Output:
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


def read_rows(read: PostRead, split: Split, rejected: Rejected | None) -> Output:
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


def known_schema(plan: IngestPlan) -> pa.Schema | None:
    return None if plan.schema is None else to_arrow(plan.schema)


def rows_of(
    frame: Frame, plan: IngestPlan, rejected: Rejected | None = None, *, before: int = 0
) -> Normalized:
    """Return the rows of a frame in the form in which they are merged. Raises as `normalized`."""
    return normalized(
        arranged(frame, plan),
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


def _ahead(seen: Seen, plan: IngestPlan) -> Ahead:
    """Return the rows that are too far ahead, those that get the time of the post included."""
    if seen.nulls and plan.source_event_time > plan.latest:
        return seen.ahead + Ahead(seen.nulls, plan.source_event_time)
    return seen.ahead


def _rows(rejected: Rejected | None) -> tuple[RejectedRow, ...]:
    return () if rejected is None else tuple(rejected.rows())


def _sampled(read: PostRead) -> Order | None:
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
