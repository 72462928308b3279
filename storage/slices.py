"""Does a Parquet slice hold the rows its block declares: how many, which, and their hash.

Reads in windows, so memory stays small however large the slice is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from protocol.arrow_digest import Looks, UnsupportedColumn, digesting
from protocol.metadata.data import DataSlice
from protocol.sha3 import Steps
from protocol.slice_file import UNREADABLE, UnreadableSlice, open_slice

WINDOW_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference between slice and declaration. `certain`: it proves the slice wrong."""

    reason: str
    message: str
    certain: bool = True


def checking_slice(
    stream: Any, declared: DataSlice, *, offset_column: str | None
) -> Steps[list[Finding]]:
    """Row count, offset column and logical hash of a slice; nothing found means it is right.

    `stream` is a file or an Arrow buffer, read from any place. `offset_column` None leaves out
    the offsets: when the name of the column is not known.
    """
    try:
        file = open_slice(stream)
        offsets = Offsets(file.schema_arrow, offset_column, declared)
        wrong_count = _check_count(file, declared)
        logical = yield from _checking_logical_hash(file, stream, declared, offsets)
        return [*(wrong_count or offsets.found()), *logical]
    except UnreadableSlice as error:
        return [Finding(reason="UnreadableSlice", message=error.message)]
    except (*UNREADABLE, ValueError) as error:
        return [Finding(reason="UnreadableSlice", message=UnreadableSlice.of(error).message)]


def _check_count(file: Any, declared: DataSlice) -> list[Finding]:
    interval = declared.offset_interval
    rows, expected = file.metadata.num_rows, interval.end - interval.start + 1
    if rows == expected:
        return []
    message = f"{expected} rows were declared, it has {rows}"
    return [Finding(reason="RowCountMismatch", message=message)]


class Offsets:
    """What is wrong with the offsets of rows that pass: they should count up the interval."""

    def __init__(self, schema: pa.Schema, column: str | None, declared: DataSlice) -> None:
        self.problem: str | None = None
        self._column = column
        self._first = self._next = declared.offset_interval.start
        if column is None:
            return
        if column not in schema.names:
            self.problem = f"there is no offset column {column!r}"
        elif not types.is_integer(schema.field(column).type):
            self.problem = f"the offset column {column!r} is not of an integer type"

    def looks(self) -> Looks:
        """At the column, if there is anything left to find out."""
        if self._column is None or self.problem is not None:
            return {}
        return {self._column: self._look}

    def _look(self, values: pa.Array) -> None:
        if self.problem is not None:
            return
        if values.null_count:
            self.problem = "the offset column has nulls"
            return
        wanted = np.arange(self._next, self._next + len(values), dtype=np.uint64)
        found = values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        differing = found.view(np.uint64) != wanted
        if differing.any():
            row = int(differing.argmax())
            number = values[row].as_py()
            self.problem = f"offset {self._next + row} was expected, found {number}"
        self._next += len(values)

    def look_alone(self, file: Any) -> None:
        """When the other columns cannot be read to their end: from the first row again."""
        if self._column is None or self.problem is not None:
            return
        self._next = self._first
        for batch in file.iter_batches(batch_size=WINDOW_ROWS, columns=[self._column]):
            self._look(batch.column(0))

    def found(self) -> list[Finding]:
        if self.problem is None:
            return []
        return [Finding(reason="OffsetColumnMismatch", message=self.problem)]


def _checking_logical_hash(
    file: Any, stream: Any, declared: DataSlice, offsets: Offsets
) -> Steps[list[Finding]]:
    """Rows are read once: `offsets` are shown them on the way."""
    content = stream if isinstance(stream, pa.Buffer) else None  # has any number of readers
    try:
        digest = yield from digesting(file, looks=offsets.looks(), content=content)
    except UnsupportedColumn as error:
        offsets.look_alone(file)
        return [Finding(reason="UnsupportedColumn", message=error.message, certain=False)]
    actual = digest.finish()
    if actual == declared.logical_hash:
        return []
    message = f"its rows hash to {actual}, but {declared.logical_hash} was declared"
    if digest.indeterminate:
        message += "; a struct and a member of it both have nulls, so readers may disagree"
    certain = not digest.indeterminate
    return [Finding(reason="LogicalHashMismatch", message=message, certain=certain)]
