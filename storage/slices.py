"""Does a Parquet slice hold the rows its block declares: how many, which, and their hash.

Reads in windows, so memory stays small however large the slice is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from protocol.arrow_digest import Run, UnreadableSlice, UnsupportedColumn, digest_of, in_order
from protocol.metadata.data import DataSlice

WINDOW_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference between slice and declaration. `certain`: it proves the slice wrong."""

    reason: str
    message: str
    certain: bool = True


def check_slice(
    stream: BinaryIO, declared: DataSlice, *, offset_column: str | None, run: Run = in_order
) -> list[Finding]:
    """Row count, offset column and logical hash of a slice; nothing found means it is right.

    `stream` is read from any place, so it has to be seekable. `offset_column` None leaves out
    the offsets: when the name of the column is not known. `run` may hash in threads.
    """
    try:
        file = pq.ParquetFile(stream)
        found = _check_rows(file, declared, offset_column)
        return found + _check_logical_hash(file, declared, run)
    except UnreadableSlice as error:
        return [Finding(reason="UnreadableSlice", message=error.message)]
    except (pa.ArrowException, OSError, ValueError) as error:
        message = f"the slice is no readable Parquet file: {str(error)[:200]}"
        return [Finding(reason="UnreadableSlice", message=message)]


def _check_rows(file: Any, declared: DataSlice, offset_column: str | None) -> list[Finding]:
    interval = declared.offset_interval
    rows, expected = file.metadata.num_rows, interval.end - interval.start + 1
    if rows != expected:
        message = f"{expected} rows were declared, it has {rows}"
        return [Finding(reason="RowCountMismatch", message=message)]
    problem = None if offset_column is None else _offset_problem(file, offset_column, declared)
    return [] if problem is None else [Finding(reason="OffsetColumnMismatch", message=problem)]


def _offset_problem(file: Any, column: str, declared: DataSlice) -> str | None:
    """What is wrong with the offsets: they are the declared interval, in order."""
    if column not in file.schema_arrow.names:
        return f"there is no offset column {column!r}"
    if not types.is_integer(file.schema_arrow.field(column).type):
        return f"the offset column {column!r} is not of an integer type"
    expected = declared.offset_interval.start
    for batch in file.iter_batches(batch_size=WINDOW_ROWS, columns=[column]):
        values = batch.column(0)
        if values.null_count:
            return "the offset column has nulls"
        wanted = np.arange(expected, expected + len(values), dtype=np.uint64)
        differing = np.flatnonzero(values.to_numpy(zero_copy_only=False).astype("uint64") != wanted)
        if len(differing):
            row = int(differing[0])
            return f"offset {expected + row} was expected, found {values[row].as_py()}"
        expected += len(values)
    return None


def _check_logical_hash(file: Any, declared: DataSlice, run: Run) -> list[Finding]:
    try:
        digest = digest_of(file, run=run)
    except UnsupportedColumn as error:
        return [Finding(reason="UnsupportedColumn", message=error.message, certain=False)]
    actual = digest.finish()
    if actual == declared.logical_hash:
        return []
    message = f"its rows hash to {actual}, but {declared.logical_hash} was declared"
    if digest.indeterminate:
        message += "; a struct and a member of it both have nulls, so readers may disagree"
    certain = not digest.indeterminate
    return [Finding(reason="LogicalHashMismatch", message=message, certain=certain)]
