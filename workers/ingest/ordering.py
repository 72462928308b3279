"""Putting rows in their final order without an engine: sorted in memory.

Only for columns that Arrow and Spark order alike; Spark has an opinion of its own on NaN, and
Arrow none on nested values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..engine.frames import BATCH_ROWS

_ALIKE = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_timestamp,
    pa.types.is_date,
)


def orders_alike(kinds: Sequence[pa.DataType]) -> bool:
    """Whether values of these types have one order here and in Spark."""
    return all(any(matches(kind) for matches in _ALIKE) for kind in kinds)


def sorted_rows(table: pa.Table, keys: Sequence[pa.ChunkedArray]) -> Iterator[pa.RecordBatch]:
    """Rows of the table, ascending by the keys, nulls first. The last key tells all rows apart."""
    names = [f"k{at}" for at in range(len(keys))]
    order = pc.sort_indices(
        pa.table(list(keys), names),
        sort_keys=[(name, "ascending", "at_start") for name in names],
    )
    yield from table.take(order).to_batches(BATCH_ROWS)
