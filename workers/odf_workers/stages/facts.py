"""What a stage tells the driver of the rows of a partition, and how it is summed up."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from odf_protocol.instant import Instant

from ..merge.findings import NOTHING, Findings
from ..merge.order import Order, sample
from ..partitions.failure import Failure
from ..partitions.files import Delivered
from ..partitions.port import Batches
from ..readers.fields_seen import FieldsSeen
from ..readers.rejected import RejectedRow
from ..slices.conform import NullCounts
from ..slices.costs import Cut, row_costs
from ..slices.write import Written
from .rows import without_position

SAMPLES = 64
"""Rows of a batch whose keys are sampled in order to cut all rows into ranges."""
Cuts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
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
class MergeFacts(RowFacts):
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

    cut: Cut
    order: Order | None = None
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
