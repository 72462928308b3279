"""What a stage tells the driver of the rows of a partition, and how it is summed up.

Rows on their way between partitions: positions, and the partition that each row belongs to.

Where ranges of rows lie in slices, as soon as the rows and costs of the ranges are known.

The rows of a range are not sorted yet. A slice that begins or ends within a range needs all its
rows: its writer sorts them and takes those of the slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odf_protocol.instant import Instant

from ..merge.history import NOTHING, Findings
from ..merge.strategies import MergeOrder, sample
from ..partitions.messages import Failure
from ..partitions.port import Batches, Delivered
from ..readers.values.json_scan import FieldsSeen
from ..readers.values.rejected import RejectedRow
from ..slices.conform import NullCounts
from ..slices.costs import SliceCut, costs_of, row_costs
from ..slices.schema import POSITION
from ..slices.write import Written

Starts = Sequence[int]
"""Total of all earlier partitions, for each partition: of rows, or of their cost."""


def without_position(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index(POSITION)
    return batch if at < 0 else batch.remove_column(at)


def numbered(batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    """Change the positions to positions in the whole input."""
    at = batch.schema.get_field_index(POSITION)
    positions = batch.column(at).to_numpy(zero_copy_only=False) + before
    return batch.set_column(at, batch.schema.field(at), pa.array(positions, pa.int64()))


def dealt(
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


SAMPLES = 64
"""Rows of a batch whose keys are sampled in order to cut all rows into ranges."""
Cuts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """Rows of a partition: their number, their cost in slices, their bytes in memory, and the keys
    of a sample."""

    rows: int = 0
    cost: int = 0
    size: int = 0
    samples: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Ahead:
    """Rows whose event time is too far ahead of the clock: their number, and the latest time."""

    rows: int = 0
    latest: Instant | None = None

    def __add__(self, other: Ahead) -> Ahead:
        known = [time for time in (self.latest, other.latest) if time is not None]
        return Ahead(self.rows + other.rows, max(known, default=None))


NONE_AHEAD = Ahead()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts(PartitionFacts):
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
    ahead: Ahead = NONE_AHEAD
    warnings: tuple[str, ...] = ()
    """Of the reader."""
    remarks: tuple[str, ...] = ()
    """About the form in which the rows are stored."""
    names: FieldsSeen | None = None
    nulls_found: NullCounts | None = None
    """Nulls in required columns, if all rows are written."""
    rejected: tuple[RejectedRow, ...] = ()
    failure: Failure | None = None
    """The error in the split; its rows must not be used then. `rejected` has the bad rows before
    it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFacts(PartitionFacts):
    findings: Findings = NOTHING
    ranges: Cuts = ()
    """If the rows are in the order of ranges of keys: rows and cost of each range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFacts:
    """A slice that was written, and the nulls in its required columns."""

    written: Written
    nulls: NullCounts
    delivered: Delivered | None
    """None if the slice is in memory, or was not written because of its nulls."""


@dataclass(slots=True)
class Totals:
    """Sums facts of rows while they pass."""

    cut: SliceCut
    order: MergeOrder | None = None
    rows: int = 0
    cost: int = 0
    size: int = 0
    samples: list[pa.Table] = field(default_factory=list)

    def passed(self, batches: Batches) -> Batches:
        """Pass on the rows, whose columns must be those that are written, and their position."""
        for batch in batches:
            self.rows += batch.num_rows
            self.size += batch.nbytes
            self.cost += int(row_costs(without_position(batch), self.cut).sum())
            if self.order is not None and batch.num_rows:
                self.samples.append(sample(pa.table(batch), self.order, SAMPLES))
            yield batch

    def keys(self) -> pa.Table | None:
        return pa.concat_tables(self.samples) if self.samples else None


Counts = npt.NDArray[np.int64]
MOST_RECEIVED = 1.5
"""Most rows that all writers receive, as a multiple of the rows that there are."""


@dataclass(frozen=True, kw_only=True)
class FactLayout:
    """Ranges of the final order, and how many rows of each there are."""

    cut: SliceCut
    parts: tuple[tuple[int, ...], ...]
    """For each partition the rows of each range, in whose order they are."""
    costs: tuple[int, ...]
    """The cost of each range."""

    @cached_property
    def rows(self) -> Counts:
        """Rows of each range."""
        return np.array([sum(each) for each in zip(*self.parts, strict=True)], np.int64)

    @cached_property
    def starts(self) -> Counts:
        """Cost of all rows before each range, and of all rows."""
        return np.concatenate([[0], np.cumsum(self.costs)]).astype(np.int64)

    @classmethod
    def of_one(cls, cut: SliceCut, rows: Sequence[int], cost: int) -> FactLayout:
        """Return the layout of one range that has all rows, given those of each partition."""
        return cls(cut=cut, parts=tuple((each,) for each in rows), costs=(cost,))

    @property
    def count(self) -> int:
        """Number of slices."""
        return self.cut.count(int(self.starts[-1]))

    @property
    def is_fine(self) -> bool:
        """Whether ranges are small enough that writers of slices receive few rows twice."""
        return bool(self._received.sum() <= MOST_RECEIVED * self.starts[-1])

    def largest(self, size: int) -> int:
        """Return the bytes that the writer of the largest slice receives, if all rows have `size`
        bytes."""
        return int(self._received.max(initial=0)) * size // max(1, int(self.starts[-1]))

    @cached_property
    def _received(self) -> Counts:
        """Cost of the rows that the writer of each slice receives."""
        received = np.zeros(self.count, np.int64)
        for (first, last), cost in zip(self._spans, self.costs, strict=True):
            received[first : last + 1] += cost
        return received

    def dealt(
        self, number: int, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each range of a partition with the slices that need them, whose
        writers sort them."""
        ends, before = np.cumsum(self.parts[number]), 0
        for batch in batches:
            at, end = before, before + batch.num_rows
            while at < end:
                span, last = self._run(int(np.searchsorted(ends, at, "right")))
                until = min(int(ends[last]), end)
                whole = until - at == batch.num_rows
                rows = batch if whole else batch.slice(at - before, until - at)
                for slice_ in range(span[0], span[1] + 1):
                    yield slice_, rows
                at = until
            before = end

    def taken(self, slice_: int, rows: pa.Table) -> tuple[int, pa.Table]:
        """Return the rows of a slice, and the number of rows before it. `rows` are sorted, and are
        all rows of the ranges of which the slice has rows."""
        first = next(at for at, (_, last) in enumerate(self._spans) if last >= slice_)
        before = int(self.rows[:first].sum())
        if self.count == 1:
            return before, rows
        costs = costs_of(rows, self.cut)
        numbers = (int(self.starts[first]) + np.cumsum(costs) - costs) // self.cut.size
        start, end = np.searchsorted(numbers, [slice_, slice_ + 1])
        return before + int(start), rows.slice(int(start), int(end - start))

    def _run(self, at: int) -> tuple[tuple[int, int], int]:
        """Return the slices of a range, and the last range after it with the same ones."""
        last = at
        while last + 1 < len(self._spans) and self._spans[last + 1] == self._spans[at]:
            last += 1
        return self._spans[at], last

    @cached_property
    def _spans(self) -> Sequence[tuple[int, int]]:
        """For each range the first and the last slice that have rows of it."""
        size, spans = self.cut.size, []
        for start, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            spans.append((int(start) // size, max(int(start), int(end) - 1) // size))
        return spans
