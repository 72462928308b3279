"""Find what is wrong with a slice, compared to its block. Runs in a separate process.

The footer is limited before it is parsed, and the decoded bytes while they are decoded, so that a
small file with large contents ends early. Rows are read once: the checks of the system columns see
them on their way into the logical hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odf_protocol.arrow_digest import UnsupportedColumn
from odf_protocol.metadata.schema import DataTypeOption
from odf_protocol.slice_digest import ColumnCheck, ColumnChecks, SliceDigest
from odf_protocol.slice_file import (
    UNREADABLE,
    UnreadableSlice,
    as_stated,
    open_slice,
    schema_of,
)
from odf_protocol.stored_values import Misfit, first_misfit, may_misfit

from ...lanes import Stream
from ..contents.claims import SliceClaim
from ..contents.slice_limits import CheckLimits
from ..contents.slices import WINDOW_ROWS, Finding, Offsets, unreadable, unstorable
from .columns import difference
from .old_times import first_ambiguous

FREE_BYTES = 64 << 20
"""Bytes that may be decoded from any file, however small it is."""
TOO_MUCH_MEMORY = Finding(
    reason="SliceTooLarge", message="looking at it takes more memory than it may"
)
OPERATIONS = range(4)
"""Append, retract, and the two halves of a correction."""


class GateCheck:
    """The check of one slice. The caller hashes the `streams` and passes the digests to `found`."""

    def __init__(self, content: pa.Buffer, claim: SliceClaim, limits: CheckLimits) -> None:
        self.streams: Sequence[Stream] = ()
        self._content, self._claim, self._limits = content, claim, limits
        self._digest: SliceDigest | None = None
        self._found: list[Finding] = []
        self._allowed = self._left = max(FREE_BYTES, limits.ratio * content.size)
        with self._noting():
            self._begin()

    def found(self, digests: Sequence[bytes]) -> list[Finding]:
        """Return what is wrong, given the digests of the streams. An empty list: the slice is
        right."""
        with self._noting():
            if self._digest is not None and not self._found:
                self._found = self._rows(self._digest, digests)
        return self._found

    def _begin(self) -> None:
        self._file = open_slice(self._content)
        if wrong := _wrong_outside(self._file, self._claim):
            self._found = [wrong]
            return
        if self._limits.values and (bad := first_ambiguous(self._file, self._content)):
            self._found = [unstorable(bad, self._claim.declared.offset_interval.start)]
            return
        self._watchers = _Watchers(schema_of(self._file), self._claim)
        try:
            if self._limits.rows:
                self._digest = SliceDigest(
                    self._file,
                    self._content,
                    checks=self._watchers.checks,
                    judges_values=self._limits.values,
                )
                self.streams = [self._counted(stream) for stream in self._digest.streams]
                return
        except UnsupportedColumn:  # no logical hash is defined, so none can be wrong
            pass
        self._found = self._system_columns()

    def _system_columns(self) -> list[Finding]:
        """Check the system columns, and the values that are judged, without hashing rows."""
        watchers = _Watchers(schema_of(self._file), self._claim)
        watchers.check_alone(self._file)
        if (found := watchers.found()) or not self._limits.values:
            return found
        first = self._claim.declared.offset_interval.start
        bad = _first_misfit(self._file)
        return [] if bad is None else [unstorable(bad, first)]

    def _rows(self, digest: SliceDigest, digests: Sequence[bytes]) -> list[Finding]:
        if self._left < 0:
            whole = f"a file of {self._content.size} bytes"
            message = f"more than {self._allowed} bytes of values are in {whole}"
            return [Finding(reason="SliceTooLarge", message=message)]
        try:
            actual = digest.finish(digests)
        except UnsupportedColumn:
            return self._system_columns()
        declared = self._claim.declared.logical_hash
        if wrong := self._watchers.found():
            return wrong
        if digest.misfit is not None:
            return [unstorable(digest.misfit, self._claim.declared.offset_interval.start)]
        if actual == declared or digest.indeterminate:
            return []
        message = f"its rows hash to {actual}, but {declared} was declared"
        return [Finding(reason="LogicalHashMismatch", message=message)]

    def _counted(self, stream: Iterator[Any]) -> Iterator[Any]:
        """Yield the same contents until more bytes were decoded than is allowed."""
        for content in stream:
            self._left -= memoryview(content).nbytes
            if self._left < 0:
                return
            yield content

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            self._found = [TOO_MUCH_MEMORY]
        except (UnreadableSlice, *UNREADABLE, ValueError) as error:
            is_memory = isinstance(error.__context__, MemoryError)
            self._found = [TOO_MUCH_MEMORY if is_memory else unreadable(error)]


def _wrong_outside(file: Any, claim: SliceClaim) -> Finding | None:
    """Check the number of rows and the columns by the footer."""
    interval = claim.declared.offset_interval
    rows, expected = file.metadata.num_rows, interval.end - interval.start + 1
    if rows != expected:
        message = f"{expected} rows were declared, it has {rows}"
        return Finding(reason="RowCountMismatch", message=message)
    if problem := difference(schema_of(file), claim.columns):
        return Finding(reason="SchemaMismatch", message=problem)
    return None


def _first_misfit(file: Any) -> Misfit | None:
    """Return the first value, column by column, that must not be stored."""
    stated = schema_of(file)
    for field in stated:
        if not may_misfit(field.type):
            continue
        before = 0
        for batch in file.iter_batches(WINDOW_ROWS, columns=[field.name], use_threads=False):
            values = as_stated(batch, stated).column(0)
            if (bad := first_misfit(field.name, values)) is not None:
                return replace(bad, row=before + bad.row)
            before += batch.num_rows
    return None


class _Watchers:
    """Checks of single columns, which record what is wrong."""

    def __init__(self, schema: pa.Schema, claim: SliceClaim) -> None:
        offset, operation, system_time, _ = claim.columns.vocab.columns
        self._wrong: dict[str, Finding] = {}
        self._claim = claim
        self._offsets = Offsets(schema, offset, claim.declared)
        self.checks: ColumnChecks = {
            **{name: self._for_nulls(name) for name in _required(schema, claim)},
            **self._offsets.checks(),
        }
        for name, check in ((operation, self._operations), (system_time, self._system_times)):
            if name in schema.names:
                self.checks = {**self.checks, name: partial(_shown_plain, check)}

    def found(self) -> list[Finding]:
        return [*self._offsets.found(), *self._wrong.values()]

    def check_alone(self, file: Any) -> None:
        """Check only these columns, one after the other."""
        interval = self._claim.declared.offset_interval
        for name, check in self.checks.items():
            seen = 0
            for batch in file.iter_batches(WINDOW_ROWS, columns=[name], use_threads=False):
                check(batch.column(0))
                seen += batch.num_rows
            if seen != interval.end - interval.start + 1:
                raise UnreadableSlice(f"column {name!r} has {seen} values")

    def _note(self, reason: str, message: str) -> None:
        self._wrong.setdefault(reason, Finding(reason=reason, message=message))

    def _for_nulls(self, name: str) -> ColumnCheck:
        def check(values: pa.Array) -> None:
            if values.null_count:
                self._note("SchemaMismatch", f"column {name!r} is required and has nulls")

        return check

    def _operations(self, values: pa.Array) -> None:
        if values.null_count:
            self._note("OperationMismatch", "the operation column has nulls")
            return
        found = _numbers(values)
        if len(found) and not (found.min() >= OPERATIONS[0] and found.max() <= OPERATIONS[-1]):
            unknown = found[(found < OPERATIONS[0]) | (found > OPERATIONS[-1])][0]
            self._note("OperationMismatch", f"there is no operation {unknown}")

    def _system_times(self, values: pa.Array) -> None:
        if values.null_count:
            self._note("SystemTimeMismatch", "the system time column has nulls")
            return
        newest = pc.max(values.cast(pa.timestamp("ms", values.type.tz), safe=False))
        latest = self._claim.system_time
        if newest.is_valid and newest.value > latest.millis + 1:
            self._note(
                "SystemTimeMismatch", f"a row has a system time after {latest}, that of its block"
            )


def _shown_plain(check: ColumnCheck, values: pa.Array) -> None:
    check(values.dictionary_decode() if types.is_dictionary(values.type) else values)


def _numbers(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _required(schema: pa.Schema, claim: SliceClaim) -> list[str]:
    """Return the columns that must not have nulls but could, according to the file."""
    columns = claim.columns
    if columns.schema is None or not columns.may_judge_nulls:
        return []
    could = {field.name for field in schema if field.nullable}
    return [
        field.name
        for field in columns.schema.fields
        if field.name in could and not isinstance(field.type, DataTypeOption)
    ]
