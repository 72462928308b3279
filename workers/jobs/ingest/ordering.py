"""Putting rows in their final order without an engine: sorted in memory.

Only for columns that Arrow and Spark order alike (`alike.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ...engines.spark.frames import BATCH_ROWS


def sorted_rows(table: pa.Table, keys: Sequence[pa.ChunkedArray]) -> Iterator[pa.RecordBatch]:
    """Rows of the table, ascending by the keys, nulls first. The last key tells all rows apart."""
    names = [f"k{at}" for at in range(len(keys))]
    order = pc.sort_indices(
        pa.table(list(keys), names),
        sort_keys=[(name, "ascending", "at_start") for name in names],
    )
    yield from table.take(order).to_batches(BATCH_ROWS)
