"""Rows on their way between partitions: positions, and the partition that each row belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..slices.columns import POSITION

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
