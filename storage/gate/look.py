"""What is wrong with a slice, held to what its block declares. For a process of its own.

The footer is bounded before it is parsed, and what comes out of the file while it comes out, so
that a small file with much in it ends early. Rows are read once: the watchers of the system
columns are shown them on their way into the logical hash.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from protocol.arrow_digest import Look, Looks, UnsupportedColumn, digesting
from protocol.metadata.schema import DataTypeOption
from protocol.sha3 import Feeds, Steps, T
from protocol.slice_file import UNREADABLE, UnreadableSlice, open_slice

from ..slices import WINDOW_ROWS, Finding, Offsets
from .claims import SliceClaim
from .columns import difference
from .limits import LookLimits

FREE_BYTES = 64 << 20
"""So much may come out of any file, however small it is."""
TOO_MUCH_MEMORY = Finding(
    reason="SliceTooLarge", message="looking at it takes more memory than it may"
)
OPERATIONS = range(4)
"""Append, retract, and the two halves of a correction."""


class TooMuchInside(Exception):
    """More comes out of a file than may."""


def looking(content: pa.Buffer, claim: SliceClaim, limits: LookLimits) -> Steps[list[Finding]]:
    """What is wrong; nothing: it is what it should be."""
    allowed = max(FREE_BYTES, limits.ratio * content.size)
    try:
        file = open_slice(content)
        if wrong := _wrong_outside(file, claim):
            return [wrong]
        return (yield from _bounded(_rows(file, content, claim, limits), allowed))
    except TooMuchInside:
        message = f"more than {allowed} bytes of values are in a file of {content.size} bytes"
        return [Finding(reason="SliceTooLarge", message=message)]
    except MemoryError:
        return [TOO_MUCH_MEMORY]
    except UnreadableSlice as error:
        if isinstance(error.__context__, MemoryError):
            return [TOO_MUCH_MEMORY]
        return [Finding(reason="UnreadableSlice", message=error.message)]
    except (*UNREADABLE, ValueError) as error:
        return [Finding(reason="UnreadableSlice", message=UnreadableSlice.of(error).message)]


def _wrong_outside(file: Any, claim: SliceClaim) -> Finding | None:
    """What the footer says: number of rows, columns."""
    interval = claim.declared.offset_interval
    rows, expected = file.metadata.num_rows, interval.end - interval.start + 1
    if rows != expected:
        message = f"{expected} rows were declared, it has {rows}"
        return Finding(reason="RowCountMismatch", message=message)
    if problem := difference(file.schema_arrow, claim.columns):
        return Finding(reason="SchemaMismatch", message=problem)
    return None


def _rows(
    file: Any, content: pa.Buffer, claim: SliceClaim, limits: LookLimits
) -> Steps[list[Finding]]:
    watchers = _Watchers(file.schema_arrow, claim)
    if not limits.rows:
        watchers.look_alone(file)
        return watchers.found()
    try:
        digest = yield from digesting(file, looks=watchers.looks, content=content)
    except UnsupportedColumn:  # no logical hash is defined, so none can be wrong
        watchers = _Watchers(file.schema_arrow, claim)
        watchers.look_alone(file)
        return watchers.found()
    if wrong := watchers.found():
        return wrong
    actual, declared = digest.finish(), claim.declared.logical_hash
    if actual == declared or digest.indeterminate:
        return []
    message = f"its rows hash to {actual}, but {declared} was declared"
    return [Finding(reason="LogicalHashMismatch", message=message)]


class _Watchers:
    """Look at the columns about which something can be said, and remember what is wrong."""

    def __init__(self, schema: pa.Schema, claim: SliceClaim) -> None:
        offset, operation, system_time, _ = claim.columns.vocab.columns
        self._wrong: dict[str, Finding] = {}
        self._claim = claim
        self._offsets = Offsets(schema, offset, claim.declared)
        self.looks: Looks = {
            **{name: self._for_nulls(name) for name in _required(schema, claim)},
            **self._offsets.looks(),
        }
        for name, look in ((operation, self._operations), (system_time, self._system_times)):
            if name in schema.names:
                self.looks = {**self.looks, name: partial(_shown_plain, look)}

    def found(self) -> list[Finding]:
        return [*self._offsets.found(), *self._wrong.values()]

    def look_alone(self, file: Any) -> None:
        """Only at these columns, one after the other."""
        interval = self._claim.declared.offset_interval
        for name, look in self.looks.items():
            seen = 0
            for batch in file.iter_batches(WINDOW_ROWS, columns=[name], use_threads=False):
                look(batch.column(0))
                seen += batch.num_rows
            if seen != interval.end - interval.start + 1:
                raise UnreadableSlice(f"column {name!r} has {seen} values")

    def _note(self, reason: str, message: str) -> None:
        self._wrong.setdefault(reason, Finding(reason=reason, message=message))

    def _for_nulls(self, name: str) -> Look:
        def look(values: pa.Array) -> None:
            if values.null_count:
                self._note("SchemaMismatch", f"column {name!r} is required and has nulls")

        return look

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


def _shown_plain(look: Look, values: pa.Array) -> None:
    look(values.dictionary_decode() if types.is_dictionary(values.type) else values)


def _numbers(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _required(schema: pa.Schema, claim: SliceClaim) -> list[str]:
    """Columns that must not hold nulls and, as far as the file says, could."""
    columns = claim.columns
    if columns.schema is None or not columns.may_judge_nulls:
        return []
    could = {field.name for field in schema if field.nullable}
    return [
        field.name
        for field in columns.schema.fields
        if field.name in could and not isinstance(field.type, DataTypeOption)
    ]


def _bounded(steps: Steps[T], allowed: int) -> Steps[T]:
    """The same steps, of which no more is hashed than is allowed. Raises `TooMuchInside`."""
    left = [allowed]
    failure: BaseException | None = None
    while True:
        try:
            streams = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            yield [_counted(feeds, left) for feeds in streams]
            failure = None
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as error:
            failure = error


def _counted(feeds: Feeds, left: list[int]) -> Feeds:
    try:
        for state, content in feeds:
            left[0] -= memoryview(content).nbytes
            if left[0] < 0:
                raise TooMuchInside
            yield state, content
    finally:
        feeds.close()
