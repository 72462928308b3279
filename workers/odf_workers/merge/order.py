"""The order of written rows: sorted at once, or cut into ranges that are sorted separately.

Both ways compare the same columns, so that the sorted ranges together are the sorted whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.instant import Instant
from odf_storage.datasets.merge_state.comparable import comparable_table

from ..slices.columns import POSITION
from ..slices.millis import filled

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Ascending by columns, nulls first; the last column is unique for each row."""

    columns: tuple[str, ...]
    event_time: str
    fallback: Instant
    """Event time that rows without one receive when they are written."""

    @property
    def of_input(self) -> Order:
        """The same order for rows that are in the order of the input: since sorting keeps the order
        of equal rows, their positions need not be compared."""
        return replace(self, columns=tuple(name for name in self.columns if name != POSITION))

    def keys(self, table: pa.Table) -> pa.Table:
        """Return the columns of the order in the form in which they are compared."""
        return comparable_table([self._column(table, name) for name in self.columns])

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        column = table.column(name)
        return filled(column, self.fallback) if name == self.event_time else column


def sort_indices(table: pa.Table, order: Order) -> pa.Array:
    """Return the indices of the rows in their order."""
    return _sorted(order.keys(table))


def sample(table: pa.Table, order: Order, count: int) -> pa.Table:
    """Return the keys of at most `count` rows, spread evenly over the table."""
    rows = min(count, table.num_rows)
    at = np.arange(rows) * table.num_rows // max(1, rows)
    return order.keys(table.select(list(dict.fromkeys(order.columns))).take(at))


def bounds(samples: Sequence[pa.Table], ranges: int) -> pa.Table:
    """Return the beginnings of all ranges but the first, so that ranges have about equally many
    samples."""
    whole = pa.concat_tables(samples)
    whole = whole.take(_sorted(whole))
    at = np.unique(np.arange(1, ranges) * whole.num_rows // ranges)
    return whole.take(at[at < whole.num_rows])


def range_of(table: pa.Table, order: Order, begins: pa.Table) -> Indices:
    """Return the range of each row: the number of bounds that are not above it."""
    at, counts = in_ranges(table, order, begins)
    ranges = np.empty(table.num_rows, np.int64)
    ranges[at] = np.repeat(np.arange(len(counts)), counts)
    return ranges


def in_ranges(table: pa.Table, order: Order, begins: pa.Table) -> tuple[Indices, Indices]:
    """Return the indices of the rows in the order of their ranges, and the rows of each range."""
    both = _sorted(pa.concat_tables([begins, order.keys(table)])).to_numpy()
    bounds = np.flatnonzero(both < begins.num_rows)  # a bound is before rows equal to it
    ends = [*(bounds - np.arange(len(bounds))), table.num_rows]
    return both[both >= begins.num_rows] - begins.num_rows, np.diff(ends, prepend=0)


def _sorted(keys: pa.Table) -> pa.Array:
    """Sort stably, so that equal rows keep their order."""
    return pc.sort_indices(
        keys, sort_keys=[(name, "ascending", "at_start") for name in keys.column_names]
    )
