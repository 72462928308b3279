"""Find what is wrong with a slice, compared to its block. Runs in a separate process.

The footer is limited before it is parsed, and the decoded bytes while they are decoded, so that a
small file with large contents ends early. Rows are read once: the checks of the system columns see
them on their way into the logical hash.

Times of 96 bits in slices, a type that old writers use, and that readers take in two ways.

Some read it as nanoseconds of 64 bits, which end in the year 2262, and make other times of those
beyond; others read all years. A slice with such a time has no rows that all agree on.

Compare the columns of a Parquet file with a schema, in any encoding that ODF writers use.

Names have to be the same, in any order. Layouts, units of time, zones and optionality differ from
engine to engine; numbers, texts and the shape of nested values do not.
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
import pyarrow.parquet as pq
from pyarrow import types

from odf_protocol.chain.schema_evolution import type_with_defaults
from odf_protocol.columns.arrow_columns import ColumnCheck, ColumnChecks, SliceDigest
from odf_protocol.columns.arrow_digest import UnsupportedColumn
from odf_protocol.columns.arrow_schema import UnsupportedSchema, from_arrow
from odf_protocol.columns.slice_file import (
    UNREADABLE,
    UnreadableSlice,
    as_stated,
    open_slice,
    schema_of,
)
from odf_protocol.columns.stored_values import Misfit, first_misfit, may_misfit
from odf_protocol.metadata import schema as odf
from odf_protocol.metadata.schema import DataField, DataType, DataTypeOption

from ...lanes import Stream
from ..contents.claims import ClaimedColumns, SliceClaim
from ..contents.slice_limits import CheckLimits
from ..contents.slices import WINDOW_ROWS, Difference, Offsets, unreadable, unstorable

REASON = (
    "a time of 96 bits outside of the years 1677 to 2262, which readers take for different ones"
)
_MICROS = pa.timestamp("us")


def first_ambiguous(file: Any, content: pa.Buffer) -> Misfit | None:
    """Return the first time, column by column, that readers take for different ones."""
    leaves = [file.schema.column(at) for at in range(len(file.schema))]
    roots = dict.fromkeys(
        leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"
    )
    for name in roots:
        other = pq.ParquetFile(pa.BufferReader(content), coerce_int96_timestamp_unit="us")
        windows = (
            each.iter_batches(WINDOW_ROWS, columns=[name], use_threads=False)
            for each in (file, other)
        )
        before = 0
        for short, long in zip(*windows, strict=True):
            if (row := _first_unequal(short.column(0), long.column(0))) is not None:
                shown = str(long.column(0)[row])
                return Misfit(row=before + row, column=name, reason=REASON, value=shown)
            before += short.num_rows
    return None


def _first_unequal(short: pa.Array, long: pa.Array) -> int | None:
    """Return the first row whose times differ, in microseconds; nested ones are compared whole."""
    if not pa.types.is_timestamp(short.type):
        same = short.cast(long.type, safe=False).equals(long)
        return None if same else 0
    floored = pc.floor_temporal(short, unit="microsecond").cast(_MICROS)
    unequal = pc.not_equal(floored, long.cast(_MICROS))
    at = pc.index(unequal, True).as_py()
    return None if at < 0 else int(at)


SHOWN = 5
"""Limit of names that an error lists."""
SAME_WITHIN = (
    odf.DataTypeTimestamp,
    odf.DataTypeTime,
    odf.DataTypeDuration,
    odf.DataTypeDate,
    odf.DataTypeString,
    odf.DataTypeBinary,
)
"""Types whose forms count as equal, because readers convert between them."""


def difference(found: pa.Schema, columns: ClaimedColumns) -> str | None:
    """Return what is wrong with the columns of a file as a sentence; None if nothing is wrong."""
    names = list(found.names)
    if len(set(names)) != len(names):
        return "two columns share one name"
    offset = columns.vocab.offset_column
    if offset not in names:
        return f"there is no offset column {offset!r}"
    try:
        actual = from_arrow(_without_dictionaries(found)).fields
    except UnsupportedSchema as unknown:
        return unknown.message
    declared = columns.schema.fields if columns.schema is not None else None
    if declared is not None:
        wanted = [field.name for field in declared]
        if problem := _names_differ(names, wanted):
            return problem
    return _system_differ(actual, columns) or _types_differ(actual, declared or (), columns)


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Replace dictionary types by their value types: a dictionary is only an encoding of the
    writer."""
    return pa.schema(
        field.with_type(field.type.value_type) if types.is_dictionary(field.type) else field
        for field in schema
    )


def _names_differ(found: Sequence[str], wanted: Sequence[str]) -> str | None:
    missing = [name for name in wanted if name not in set(found)]
    surplus = [name for name in found if name not in set(wanted)]
    parts = [
        f"{what} {', '.join(repr(name[:100]) for name in names[:SHOWN])}"
        for what, names in (("lacks", missing), ("has", surplus))
        if names
    ]
    return f"unlike the dataset's schema it {' and '.join(parts)}" if parts else None


def _system_differ(actual: Sequence[DataField], columns: ClaimedColumns) -> str | None:
    offset, operation, system_time, event_time = columns.vocab.columns
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        offset: (_INTEGERS, "an integer"),
        operation: (_INTEGERS, "an integer"),
        system_time: ((odf.DataTypeTimestamp,), "a timestamp"),
        event_time: ((odf.DataTypeTimestamp, odf.DataTypeDate), "a timestamp or a date"),
    }
    for field in actual:
        wanted, what = kinds.get(field.name, ((object,), ""))
        if not isinstance(odf.bare_type(field.type), wanted):
            return f"column {field.name!r} is not {what}"
    return None


def _types_differ(
    actual: Sequence[DataField], declared: Sequence[DataField], columns: ClaimedColumns
) -> str | None:
    found = {field.name: field.type for field in actual}
    for field in declared:
        if field.name in columns.vocab.columns:
            continue
        if not _fits(found[field.name], field.type):
            return (
                f"column {field.name!r} is {_type_name(found[field.name])} in the file and "
                f"{_type_name(field.type)} in the dataset's schema"
            )
    return None


def _fits(found: DataType, declared: DataType) -> bool:
    one, other = odf.bare_type(found), odf.bare_type(declared)
    if isinstance(one, odf.DataTypeNull):
        return True
    match one, other:
        case odf.DataTypeList(), odf.DataTypeList():
            return _fits(one.item_type, other.item_type)
        case odf.DataTypeMap(), odf.DataTypeMap():
            return _fits(one.key_type, other.key_type) and _fits(one.value_type, other.value_type)
        case odf.DataTypeStruct(), odf.DataTypeStruct():
            ours = {field.name: field.type for field in one.fields}
            theirs = {field.name: field.type for field in other.fields}
            same_names = ours.keys() == theirs.keys()
            return same_names and all(_fits(ours[name], theirs[name]) for name in ours)
    if type(one) is type(other) and isinstance(one, SAME_WITHIN):
        return True
    return type_with_defaults(one) == type_with_defaults(other)


def _type_name(kind: DataType) -> str:
    return type(odf.bare_type(kind)).__name__.removeprefix("DataType")


_INTEGERS = (
    odf.DataTypeInt8,
    odf.DataTypeInt16,
    odf.DataTypeInt32,
    odf.DataTypeInt64,
    odf.DataTypeUInt8,
    odf.DataTypeUInt16,
    odf.DataTypeUInt32,
    odf.DataTypeUInt64,
)


FREE_BYTES = 64 << 20
"""Bytes that may be decoded from any file, however small it is."""
TOO_MUCH_MEMORY = Difference(
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
        self._found: list[Difference] = []
        self._allowed = self._left = max(FREE_BYTES, limits.ratio * content.size)
        with self._noting():
            self._begin()

    def found(self, digests: Sequence[bytes]) -> list[Difference]:
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

    def _system_columns(self) -> list[Difference]:
        """Check the system columns, and the values that are judged, without hashing rows."""
        watchers = _Watchers(schema_of(self._file), self._claim)
        watchers.check_alone(self._file)
        if (found := watchers.found()) or not self._limits.values:
            return found
        first = self._claim.declared.offset_interval.start
        bad = _first_misfit(self._file)
        return [] if bad is None else [unstorable(bad, first)]

    def _rows(self, digest: SliceDigest, digests: Sequence[bytes]) -> list[Difference]:
        if self._left < 0:
            whole = f"a file of {self._content.size} bytes"
            message = f"more than {self._allowed} bytes of values are in {whole}"
            return [Difference(reason="SliceTooLarge", message=message)]
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
        return [Difference(reason="LogicalHashMismatch", message=message)]

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


def _wrong_outside(file: Any, claim: SliceClaim) -> Difference | None:
    """Check the number of rows and the columns by the footer."""
    interval = claim.declared.offset_interval
    rows, expected = file.metadata.num_rows, interval.count
    if rows != expected:
        message = f"{expected} rows were declared, it has {rows}"
        return Difference(reason="RowCountMismatch", message=message)
    if problem := difference(schema_of(file), claim.columns):
        return Difference(reason="SchemaMismatch", message=problem)
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
        self._wrong: dict[str, Difference] = {}
        self._claim = claim
        self._offsets = Offsets(schema, offset, claim.declared)
        self.checks: ColumnChecks = {
            **{name: self._for_nulls(name) for name in _required(schema, claim)},
            **self._offsets.checks(),
        }
        for name, check in ((operation, self._operations), (system_time, self._system_times)):
            if name in schema.names:
                self.checks = {**self.checks, name: partial(_shown_plain, check)}

    def found(self) -> list[Difference]:
        return [*self._offsets.found(), *self._wrong.values()]

    def check_alone(self, file: Any) -> None:
        """Check only these columns, one after the other."""
        interval = self._claim.declared.offset_interval
        for name, check in self.checks.items():
            seen = 0
            for batch in file.iter_batches(WINDOW_ROWS, columns=[name], use_threads=False):
                check(batch.column(0))
                seen += batch.num_rows
            if seen != interval.count:
                raise UnreadableSlice(f"column {name!r} has {seen} values")

    def _note(self, reason: str, message: str) -> None:
        self._wrong.setdefault(reason, Difference(reason=reason, message=message))

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
