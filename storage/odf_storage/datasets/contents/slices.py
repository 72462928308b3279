"""Check that a Parquet slice holds the rows its block declares: their number, offsets and hash.

It reads in windows, so memory stays small however large the slice is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import types

from odf_protocol.columns.arrow_columns import ColumnChecks, SliceDigest
from odf_protocol.columns.arrow_digest import UnsupportedColumn
from odf_protocol.columns.scalar_text import scalar_text
from odf_protocol.columns.slice_file import UNREADABLE, UnreadableSlice, open_slice
from odf_protocol.columns.stored_values import Misfit
from odf_protocol.metadata.events import DataSlice
from odf_protocol.multihash import Multihash

from ...lanes import Stream

WINDOW_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between a slice and its declaration. `certain` means that it proves the slice
    wrong; a `remark` means that it is what was declared, and still hard to read."""

    reason: str
    message: str
    certain: bool = True
    remark: bool = False


UNSTORABLE = "UnstorableValue"
"""The reason of a finding about a value that this node would not have stored."""


def unstorable(bad: Misfit, first_offset: int) -> Difference:
    """Return the finding about a value of a slice whose rows begin with an offset."""
    where = f"column `{scalar_text(bad.column)}`, offset {first_offset + bad.row}"
    message = f"{where}: {bad.reason}: {bad.value!r}"
    return Difference(reason=UNSTORABLE, message=message, certain=False, remark=True)


class SliceCheck:
    """A check of the row count, offset column and logical hash of a slice. The caller hashes the
    `streams` and passes the digests to `found`.

    `source` is a file or an Arrow buffer with random access. If `offset_column` is None, because
    the name of the column is not known, offsets are not checked.
    """

    def __init__(
        self, source: pa.Buffer | BinaryIO, declared: DataSlice, *, offset_column: str | None
    ) -> None:
        self.streams: Sequence[Stream] = ()
        self._declared = declared
        self._digest: SliceDigest | None = None
        self._found: list[Difference] = []
        try:
            self._file = open_slice(source)
            self._wrong_count = _check_count(self._file, declared)
            self._offsets = Offsets(self._file.schema_arrow, offset_column, declared)
            self._begin(source)
        except (UnreadableSlice, *UNREADABLE, ValueError) as error:
            self._found = [unreadable(error)]

    def found(self, digests: Sequence[bytes]) -> list[Difference]:
        """Return what is wrong, given the digests of the streams. An empty list means that the
        slice is right."""
        if self._digest is None:
            return self._found
        try:
            actual = self._digest.finish(digests)
        except UnsupportedColumn as error:
            return self._without_hash(error)
        except UnreadableSlice as error:
            return [unreadable(error)]
        wrong = self._wrong_count or self._offsets.found()
        found = [*wrong, *_differing(actual, self._declared, self._digest)]
        if not found and (bad := self._digest.misfit) is not None:
            found = [unstorable(bad, self._declared.offset_interval.start)]
        return found

    def _begin(self, source: pa.Buffer | BinaryIO) -> None:
        try:
            checks = self._offsets.checks()
            self._digest = SliceDigest(self._file, source, checks=checks, judges_values=True)
            self.streams = self._digest.streams
        except UnsupportedColumn as error:
            self._found = self._without_hash(error)

    def _without_hash(self, error: UnsupportedColumn) -> list[Difference]:
        try:
            self._offsets.check_alone(self._file)
        except (*UNREADABLE, ValueError) as broken:
            return [unreadable(broken)]
        finding = Difference(reason="UnsupportedColumn", message=error.message, certain=False)
        return [*(self._wrong_count or self._offsets.found()), finding]


def unreadable(error: Exception) -> Difference:
    """Return the finding for an error that was raised while a slice was read."""
    known = error if isinstance(error, UnreadableSlice) else UnreadableSlice.of(error)
    return Difference(reason="UnreadableSlice", message=known.message)


def _differing(actual: Multihash, declared: DataSlice, digest: SliceDigest) -> list[Difference]:
    if actual == declared.logical_hash:
        return []
    message = f"its rows hash to {actual}, but {declared.logical_hash} was declared"
    if digest.indeterminate:
        message += "; a struct and a member of it both have nulls, so readers may disagree"
    certain = not digest.indeterminate
    return [Difference(reason="LogicalHashMismatch", message=message, certain=certain)]


def _check_count(file: Any, declared: DataSlice) -> list[Difference]:
    interval = declared.offset_interval
    rows, expected = file.metadata.num_rows, interval.count
    if rows == expected:
        return []
    message = f"{expected} rows were declared, it has {rows}"
    return [Difference(reason="RowCountMismatch", message=message)]


class Offsets:
    """A check that the offsets of the rows passed to it count up through the declared interval."""

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

    def checks(self) -> ColumnChecks:
        """Return the check of the offset column, or nothing if the result is already known."""
        if self._column is None or self.problem is not None:
            return {}
        return {self._column: self._check}

    def _check(self, values: pa.Array) -> None:
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

    def check_alone(self, file: Any) -> None:
        """Check the offset column alone, from the first row. Used if other columns are not
        readable."""
        if self._column is None or self.problem is not None:
            return
        self._next = self._first
        for batch in file.iter_batches(batch_size=WINDOW_ROWS, columns=[self._column]):
            self._check(batch.column(0))

    def found(self) -> list[Difference]:
        if self.problem is None:
            return []
        return [Difference(reason="OffsetColumnMismatch", message=self.problem)]
