"""Repair corrections of which a query kept only one half.

A correction is two adjacent rows: the old row (-C), then the new row (+C). A filter may keep only
one of them. A -C alone becomes a retraction, and a +C alone becomes an append.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...slices.columns import Operation
from ..port.port import ROW

Flags = npt.NDArray[np.bool_]


def whole_corrections(
    batches: Iterator[pa.RecordBatch], operation: str, *, splits: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows; halves of corrections become retractions and appends.

    Two rows form a correction if they are adjacent and, if there is a column `ROW`, were computed
    from adjacent rows of one input. With `splits` no two rows do. The column `ROW` is removed.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        if held is not None:
            batch = pa.concat_batches([held, batch])
            held = None
        if batch.num_rows == 0:
            continue
        if batch.column(operation)[-1].as_py() == Operation.CORRECT_FROM:
            # Its other half may begin the next batch.
            held, batch = batch.slice(batch.num_rows - 1), batch.slice(0, batch.num_rows - 1)
        yield _whole(batch, operation, splits)
    if held is not None:
        yield _whole(held, operation, splits)


def _whole(batch: pa.RecordBatch, operation: str, splits: bool) -> pa.RecordBatch:
    codes = batch.column(operation).to_numpy(zero_copy_only=False)
    was, now = codes == Operation.CORRECT_FROM, codes == Operation.CORRECT_TO
    if was.any() or now.any():
        first = np.zeros_like(was) if splits else _pairs(batch, was, now)
        second = np.concatenate(([False], first[:-1]))
        codes = np.where(was & ~first, int(Operation.RETRACT), codes)
        codes = np.where(now & ~second, int(Operation.APPEND), codes)
        at = batch.schema.get_field_index(operation)
        field = batch.schema.field(at)
        batch = batch.set_column(at, field, pa.array(codes, field.type))
    return batch.drop_columns([ROW]) if ROW in batch.schema.names else batch


def _pairs(batch: pa.RecordBatch, was: Flags, now: Flags) -> Any:
    """Return a flag for each row: whether it is a -C that its +C follows."""
    follows = np.concatenate((now[1:], [False]))
    if ROW in batch.schema.names:
        rows = batch.column(ROW).to_numpy(zero_copy_only=False)
        follows &= np.concatenate((rows[1:] == rows[:-1] + 1, [False]))
    return was & follows
