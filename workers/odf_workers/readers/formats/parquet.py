"""The Parquet reader: all columns unchanged, or columns chosen by name and cast to a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.columns.scalar_text import scalar_text
from odf_protocol.columns.stored_values import NAIVE, first_misfit
from odf_protocol.errors import BadInput
from odf_protocol.metadata.sources import ReadStepParquet

from ...runtime.progress import Content, mapped, size_of
from ...slices.schema import NO_VALUE, BadInputSchema, BadRow, Frame, Limits, check_names
from ..values.features import Known, is_wgs84, not_wgs84
from ..values.forms import not_of
from ..values.json_scan import not_stored
from ..values.recast import LEFT_OUT, can_recast, first_fraction, is_naive, left_out, loss, recast
from ..values.rejected import Rejected, shown, sifted
from ..values.text import BadValue
from .parquet_bounds import (
    UNREADABLE,
    BoundsReading,
    allowance,
    check_unpacked,
    parts,
    planned,
    row_sizes,
)
from .parquet_columns import FileColumns, columns_of
from .plain import TablePart, in_table

INT96_UNIT = "us"
"""Nanoseconds, which Arrow takes for the old type of times, end in the year 2262."""
MAX_GEO_BYTES = 1 << 20
"""Limit of the metadata of GeoParquet that is looked at."""
MAX_SAID = 200
"""Limit of the characters of a library's message about a file."""


def read_parquet(
    _: ReadStepParquet,
    content: Content,
    schema: pa.Schema | None,
    limits: Limits,
    rejected: Rejected | None = None,
    known: Known | None = None,
    *,
    groups: Sequence[int] | None = None,
    before: int = 0,
    part: TablePart | None = None,
) -> Frame | None:
    """Open a Parquet file, or some of its row groups, which follow `before` rows; or a file that is
    `part` of a table, in the columns of the table. Of a file of which some row groups are read, the
    bytes of others need not be there.

    Raises:
        MalformedParquet: the file is unreadable; raised here or later by the batches.
        InputTooLarge, DecompressionTooLarge: the content exceeds the limits.
        BadInputSchema: a column of the schema is not in the file, or cannot become its type.
    """
    if size_of(content) == 0 and part is None:
        return None if schema is None else Frame.empty(schema)
    plain, file, reading = _opened(content, limits, groups)
    columns = _columns(plain, schema, known, part)
    stored, warnings = columns.schema, list(columns.warnings)
    check_names(stored.names, limits)
    unpacked = _unpacked(file, columns, reading.rows, limits, size_of(content), groups, before)
    if part is not None:
        check_names(part.schema.names, limits)
        stored, unpacked = part.schema, in_table(unpacked, part)
    wanted = schema if schema is not None else _as_known(stored, known)
    beyond = frozenset(stored.names) - frozenset(wanted.names)
    warnings += not_stored("columns", beyond)
    for field in wanted:
        if field.name not in stored.names:
            raise BadInputSchema(f"the file has no column `{field.name}`", column=field.name)
        found = stored.field(field.name).type
        if not can_recast(found, field.type):
            raise BadInputSchema(
                f"column `{field.name}` is {found} in the file, which cannot become {field.type}",
                column=field.name,
            )
        for name in dict.fromkeys(left_out(found, field.type)):
            warnings.append(LEFT_OUT.format(field.name, name[:100]))
        if is_naive(found) and pa.types.is_timestamp(field.type) and field.type.tz:
            warnings.append(f"column `{field.name}` has {NAIVE}")
    warnings += _of_geometries(plain)
    conversion = _Conversion(columns, stored, wanted, warnings, {})
    batches = conversion.batches(unpacked, rejected, before)
    return Frame(wanted, batches, warnings, left_out=beyond, cut=conversion.cut)


def _of_geometries(file: pq.ParquetFile) -> Iterator[str]:
    """Yield warnings about columns whose coordinates are not in WGS 84, by the metadata of
    GeoParquet; without a system they are."""
    text = (file.metadata.metadata or {}).get(b"geo", b"")
    try:
        columns = json.loads(text)["columns"] if 0 < len(text) <= MAX_GEO_BYTES else {}
        for name, column in columns.items():
            system = column.get("crs", "OGC:CRS84")
            known = system.get("id") or {} if isinstance(system, dict) else {}
            code = f"{known.get('authority')}:{known.get('code')}" if known else system
            if isinstance(code, dict):
                code = str(code.get("name", "an unnamed system"))
            code = "an unknown system" if code is None else str(code)
            if not is_wgs84(code):
                yield f"column `{name[:100]}`: {not_wgs84(code)}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield "the metadata of GeoParquet in the file cannot be read"


def values_size(content: Content, limits: Limits) -> int:
    """Return an estimate of the bytes of a file's values, but at least the size of the file.

    Raises the same errors as `read_parquet` for a file that is unreadable or too large: only here
    are the limits of a file checked as a whole if its row groups are read separately.
    """
    size = size_of(content)
    if size == 0:
        return 0
    _, _, reading = _opened(content, limits)
    return max(size, reading.size)


def _opened(
    content: Content, limits: Limits, groups: Sequence[int] | None = None
) -> tuple[pq.ParquetFile, pq.ParquetFile, BoundsReading]:
    """Return the file without and with dictionary indices, and how to read it or some of its row
    groups."""
    try:
        stream = mapped(content)
        plain = pq.ParquetFile(stream, coerce_int96_timestamp_unit=INT96_UNIT)
        limits.check_columns(plain.metadata.num_columns)
        reading = planned(memoryview(stream.read_buffer()), plain.schema, limits, groups)
        file = pq.ParquetFile(
            stream,
            read_dictionary=reading.dictionaries,
            coerce_int96_timestamp_unit=INT96_UNIT,
        )
    except UNREADABLE as bad:
        raise BadInput("MalformedParquet", f"not a Parquet file: {_said(bad)}") from None
    return plain, file, reading


def _columns(
    file: pq.ParquetFile, schema: pa.Schema | None, known: Known | None, part: TablePart | None
) -> FileColumns:
    """Return the columns of a file. An index of pandas is restored if nothing says which columns
    there are, or if it is one of them. Raises `BadInputSchema`, `MalformedParquet`."""
    wanted: dict[str, pa.DataType] = {}
    if schema is not None:
        wanted = {field.name: field.type for field in schema}
    elif known is not None:
        wanted = {name: field.type for name, field in known.fields.items()}

    def takes(name: str) -> bool:
        if part is not None:
            return False
        if schema is None and (known is None or name == known.event_time):
            return True
        return name in wanted

    try:
        return columns_of(file, wanted, takes)
    except UNREADABLE as bad:
        raise BadInput("MalformedParquet", f"not a Parquet file: {_said(bad)}") from None


def _said(bad: Exception) -> str:
    """Return the first line of a library's message, which may include names that are not text."""
    if isinstance(bad, UnicodeDecodeError):
        return "a name in it is no UTF-8"
    return scalar_text(str(bad)).partition("\n")[0][:MAX_SAID]


def _unpacked(
    file: pq.ParquetFile,
    columns: FileColumns,
    rows: int,
    limits: Limits,
    size: int,
    groups: Sequence[int] | None,
    done: int,
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the columns of the file, as many at once as their sizes allow."""
    total, allowed = 0, allowance(size, limits.archives)
    try:
        for batch in _by_group(file, rows, groups):
            sizes = row_sizes(batch, done, limits)
            for start, stop in parts(sizes):
                total += int(sizes[start:stop].sum())
                check_unpacked(total, allowed, limits.archives)
                yield columns.made(batch.slice(start, stop - start), done + start)
            done += batch.num_rows
    except UNREADABLE as bad:
        raise BadInput("MalformedParquet", f"the Parquet file is damaged: {_said(bad)}") from None


def _by_group(
    file: pq.ParquetFile, rows: int, groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    """Yield batches within row groups: Arrow cannot join texts inside nested values over
    several."""
    for group in range(file.num_row_groups) if groups is None else groups:
        yield from file.iter_batches(rows, row_groups=[group])


def _as_known(stored: pa.Schema, known: Known | None) -> pa.Schema:
    if known is None:
        return stored
    return pa.schema([field.with_type(known.type_of(field.name, field.type)) for field in stored])


@dataclass(frozen=True, slots=True)
class _Conversion:
    """From the columns of a file to those of a schema, row by row checked; adds to `warnings` what
    the types of the schema cannot keep, and to `cut` the first fraction of a whole number."""

    columns: FileColumns
    stored: pa.Schema
    wanted: pa.Schema
    warnings: list[str]
    cut: dict[str, str]

    def batches(
        self, unpacked: Iterator[pa.RecordBatch], rejected: Rejected | None, done: int
    ) -> Iterator[pa.RecordBatch]:
        for batch in unpacked:
            convert = partial(self._converted, batch, done)
            yield from sifted(batch.num_rows, convert, rejected, partial(shown, batch))
            done += batch.num_rows

    def _converted(self, batch: pa.RecordBatch, done: int, start: int, stop: int) -> pa.RecordBatch:
        part = batch.slice(start, stop - start)
        columns = [
            self._cast(part.column(self.stored.get_field_index(field.name)), field, done + start)
            for field in self.wanted
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.wanted)

    def _cast(self, column: pa.Array, field: pa.Field, done: int) -> pa.Array:
        if text := first_misfit(field.name, column, texts_only=True):
            reason = f"row {done + text.row + 1}: {text.reason}"
            raise BadRow(reason, column=text.column, value=text.value)
        self.columns.check(field.name, column, done)
        try:
            made = recast(column, field.type)
        except BadValue as bad:
            where = f"row {done + bad.index + 1} is {not_of(field.type, value=bad.value)}"
            raise BadRow(where, column=field.name, value=bad.value) from None
        if not field.nullable and made.null_count:
            row = done + pc.index(pc.is_null(made), True).as_py() + 1
            raise BadRow(f"row {row} has {NO_VALUE}", column=field.name)
        if made is not column and (lost := loss(column, made)):
            warning = f"column `{field.name}` is {column.type} in the file: {lost}"
            if warning not in self.warnings:
                self.warnings.append(warning)
            if field.name not in self.cut and (value := first_fraction(column, made)):
                self.cut[field.name] = value
        return made
