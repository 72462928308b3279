"""The order rows are written in: sorted, or cut into ranges that are sorted each by itself.

Both compare the same columns, so that the ranges one after the other are the whole sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_node.protocol.instant import Instant
from odf_node.storage.datasets.merge_state.comparable import comparable_table

from ..slices.millis import filled

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Ascending by columns, nulls first; the last column tells all rows apart."""

    columns: tuple[str, ...]
    event_time: str
    fallback: Instant
    """What rows without an event time get once they are written."""

    def keys(self, table: pa.Table) -> pa.Table:
        """The columns of the order as they are compared."""
        return comparable_table([self._column(table, name) for name in self.columns])

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        column = table.column(name)
        return filled(column, self.fallback) if name == self.event_time else column


def sort_indices(table: pa.Table, order: Order) -> pa.Array:
    """Which row comes where."""
    return _sorted(order.keys(table))


def sample(table: pa.Table, order: Order, count: int) -> pa.Table:
    """Keys of at most so many rows, evenly from all of the table."""
    rows = min(count, table.num_rows)
    at = np.arange(rows) * table.num_rows // max(1, rows)
    return order.keys(table.select(list(dict.fromkeys(order.columns))).take(at))


def bounds(samples: Sequence[pa.Table], ranges: int) -> pa.Table:
    """Where all ranges but the first begin, for ranges of about as many of the samples each."""
    whole = pa.concat_tables(samples)
    whole = whole.take(_sorted(whole))
    at = np.unique(np.arange(1, ranges) * whole.num_rows // ranges)
    return whole.take(at[at < whole.num_rows])


def range_of(table: pa.Table, order: Order, begins: pa.Table) -> Indices:
    """In which range each row lies: how many of the bounds are not above it."""
    both = _sorted(pa.concat_tables([begins, order.keys(table)])).to_numpy()
    passed = np.cumsum(both < begins.num_rows)  # of equal ones, the bound comes first
    ranges = np.empty(len(both), np.int64)
    ranges[both] = passed
    return ranges[begins.num_rows :]


def _sorted(keys: pa.Table) -> pa.Array:
    """Stable, so that of equal rows the first stays the first."""
    return pc.sort_indices(
        keys, sort_keys=[(name, "ascending", "at_start") for name in keys.column_names]
    )
