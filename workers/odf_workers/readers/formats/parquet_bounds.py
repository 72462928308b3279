"""The unpacked size of a Parquet file, before and while it is read.

Runs and dictionaries expand a few bytes to any number of values, and a footer may contain false
numbers. Therefore the headers of all pages are read first: they state how many values a page has
and how large it is decompressed, and a decoder reads no more than that. These numbers determine how
many rows are read at once, and whether the file is refused before any value is read. Text columns
with a dictionary are read as its indices, so that the lengths of values are known before the values
are created.

Headers of the pages of a Parquet column chunk: the amount that a decoder will read from each.

Source: Parquet format, "Data Pages" and `parquet.thrift`; Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_protocol.columns.slice_file import Chunk, RowGroup, Unclear, row_groups_of
from odf_protocol.errors import BadInput, LimitExceeded

from ...runtime.command import PrepareLimits, check_size
from ...slices.schema import BATCH_ROWS, InputTooLarge, Limits

DATA, INDEX, DICTIONARY, DATA_2 = 0, 1, 2, 3
"""Kinds of pages."""
DELTA_BYTE_ARRAY = 7
"""An encoding in which texts share prefixes with the previous ones."""
INDICES = (2, 8)
"""Encodings whose values are positions in the dictionary of the chunk."""
_HEADER_BYTES = 1 << 14
_SHORT, _INT, _LONG, _BYTES, _STRUCT = 4, 5, 6, 8, 12
_SAID_IN = {DATA: (5, 1, 2), DICTIONARY: (7, 1, 2), DATA_2: (8, 1, 4)}
"""Fields of each kind of header: the kind's own header, and in it number of values, and
encoding."""


@dataclass(frozen=True, slots=True)
class PageHeader:
    """Numbers that the header of a page of any kind claims."""

    kind: int
    content_size: int
    values: int
    encoding: int


def page_headers(content: memoryview, chunk: Chunk) -> Iterator[PageHeader]:
    """Yield the headers of all pages of a chunk, except index pages; a reader reads no more than
    they claim.

    Raises:
        Unclear: they do not follow each other, or cannot be read.
    """
    at, end = chunk.start, chunk.end
    if end > len(content):
        raise Unclear("the chunk lies outside of the file")
    while at < end:
        try:
            head, length = _struct(bytes(content[at : min(at + _HEADER_BYTES, end)]), 0)
        except IndexError:
            raise Unclear("a page header without an end") from None
        kind, content_size, size = head.get(1, -1), head.get(2, -1), head.get(3, -1)
        at += length + size
        if size < 0 or content_size < 0 or at > end:
            raise Unclear("a page lies outside of its chunk")
        if kind == INDEX:
            continue
        field, counts, encodes = _SAID_IN.get(kind, (0, 0, 0))
        said = head.get(field)
        if not isinstance(said, dict) or said.get(counts, -1) < 0:
            raise Unclear("a page without a number of values")
        yield PageHeader(kind, content_size, said[counts], said.get(encodes, -1))


# --- Thrift ---------------------------------------------------------------------------------


def _struct(raw: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the integers and structs of a struct by field number; other values are skipped."""
    found: dict[int, Any] = {}
    field = 0
    while head := raw[at]:
        at += 1
        step, kind = head >> 4, head & 0x0F
        if not step:
            raise Unclear("a field with a number of its own, as no page header has")
        field += step
        if kind in (_INT, _BYTES, _LONG, _SHORT):
            number = raw[at]
            at += 1
            if number > 0x7F:
                number, at = _varint(raw, at - 1)
            if kind == _BYTES:
                at += number
            else:
                found[field] = (number >> 1) ^ -(number & 1)
        elif kind == _STRUCT and depth < 2:
            found[field], at = _struct(raw, at, depth + 1)
        elif kind not in (1, 2):  # a boolean has no bytes after its kind
            raise Unclear("a field of a kind that no page header has")
    return found, at + 1


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Unclear("a number without an end")


BATCH_BYTES = 64 << 20
"""Limit of bytes of values created at once, unless one row is larger."""
FLOOR_BYTES = 1 << 30
"""Any file may unpack to this size, so that a column of one repeated value is not taken for an
attack."""
PAGE_BYTES, PREFIXED_PAGE_BYTES = 128 << 20, 16 << 20
"""Limits of the decompressed size of a page; a page may also be as large as the longest record."""
PREFIX_ROWS = 64
"""Rows read at once if each value may share a prefix with the previous one, since headers do not
show the lengths then."""
UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError)
"""Errors of the library for a file that it cannot read."""
Sizes = npt.NDArray[np.int64]
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
_INDEX_BYTES = 8
"""Bytes of a value's index or offset; the page or the dictionary counts the value's own bytes."""


@dataclass(frozen=True, slots=True)
class BoundsReading:
    """How to read a file: rows at once, and the text columns to read as dictionary indices.
    `size` is an estimate of the bytes of all values, which takes the texts of a dictionary for
    equally long."""

    rows: int
    dictionaries: list[str]
    size: int


def planned(
    content: memoryview,
    schema: pq.ParquetSchema,
    limits: Limits,
    groups: Sequence[int] | None = None,
) -> BoundsReading:
    """Read the headers of all pages, or of those in some row groups, and plan the reading.

    Raises:
        DecompressionTooLarge, InputTooLarge: the file unpacks to more than the limits.
        MalformedParquet: the headers of its pages cannot be followed.
    """
    allowed = allowance(len(content), limits.archives)
    total, looked_up, rows_at_once = 0, 0, BATCH_ROWS
    dictionaries = set()
    every = _groups(content, schema)
    for group in every if groups is None else [every[at] for at in groups]:
        densities = 0.0
        for at, chunk in enumerate(group.chunks):
            if group.num_rows == chunk.num_values == 0:
                continue
            kind = schema.column(at)
            seen = _look(content, chunk, limits, width=_width(kind))
            total += seen.size
            looked_up += seen.looked_up
            check_unpacked(total, allowed, limits.archives)
            repeated = kind.max_repetition_level > 0
            each_row = max(1.0, seen.values / max(1, group.num_rows)) if repeated else 1.0
            densities += seen.density * each_row
            if seen.prefixed:
                rows_at_once = min(rows_at_once, PREFIX_ROWS)
            if seen.dictionary and _is_text(kind):
                dictionaries.add(kind.path)
        rows_at_once = min(rows_at_once, max(1, int(BATCH_BYTES / max(densities, 1.0))))
    return BoundsReading(rows_at_once, sorted(dictionaries), total + looked_up)


def _groups(content: memoryview, schema: pq.ParquetSchema) -> list[RowGroup]:
    try:
        groups = row_groups_of(content)
    except Unclear as bad:
        raise BadInput("MalformedParquet", f"not a Parquet file: {bad}") from None
    if any(len(group.chunks) != len(schema) for group in groups):
        raise BadInput("MalformedParquet", "not a Parquet file: its row groups have other columns")
    return groups


@dataclass(frozen=True, slots=True)
class _Seen:
    """Facts about a chunk: values, their bytes, the bytes of texts that are stored as indices, the
    largest average of bytes per value in a page."""

    values: int
    size: int
    looked_up: int
    density: float
    dictionary: bool
    prefixed: bool


def _look(content: memoryview, chunk: Chunk, limits: Limits, *, width: int) -> _Seen:
    values, size, density, dictionary, prefixed = 0, 0, 0.0, False, False
    looked_up, length = 0, 0
    try:
        for page in page_headers(content, chunk):
            _check_page(page.content_size, limits, prefixed=page.encoding == DELTA_BYTE_ARRAY)
            if page.kind == DICTIONARY:
                dictionary, size = True, size + page.content_size
                length = page.content_size // max(1, page.values)
                continue
            taken = page.values * width or page.content_size + page.values * _INDEX_BYTES
            values, size = values + page.values, size + taken
            if not width and page.encoding in INDICES:
                looked_up += page.values * length
            density = max(density, taken / max(1, page.values))
            prefixed |= page.encoding == DELTA_BYTE_ARRAY
    except Unclear as bad:
        raise BadInput(
            "MalformedParquet", f"the pages of the Parquet file cannot be followed: {bad}"
        ) from None
    return _Seen(values, size, looked_up, density, dictionary, prefixed)


def _check_page(size: int, limits: Limits, *, prefixed: bool) -> None:
    most = max(limits.row_bytes, PREFIXED_PAGE_BYTES if prefixed else PAGE_BYTES)
    if size > most:
        raise InputTooLarge(
            f"a page of the Parquet file unpacks to {size} bytes, at most {most} are accepted",
            limit="row_bytes",
            value=limits.row_bytes,
            setting="ODF_WORKER_MAX_ROW_BYTES",
        )


def _width(kind: pq.ColumnSchema) -> int:
    """Return the bytes of a value; 0 if values differ in length."""
    return (
        kind.length
        if kind.physical_type == "FIXED_LEN_BYTE_ARRAY"
        else _WIDTHS.get(kind.physical_type, 0)
    )


def _is_text(kind: pq.ColumnSchema) -> bool:
    return kind.physical_type == "BYTE_ARRAY" and kind.converted_type in ("NONE", "UTF8", "JSON")


def allowance(size: int, archives: PrepareLimits) -> int:
    """Return the limit of bytes of values for a file of this size."""
    return min(archives.max_bytes, max(FLOOR_BYTES, size * archives.max_ratio))


def check_unpacked(total: int, allowed: int, archives: PrepareLimits) -> None:
    """Raise `DecompressionTooLarge` above the limit."""
    if total > allowed:
        check_size(total, archives)
        raise LimitExceeded(
            "DecompressionTooLarge",
            f"the Parquet file grows more than {archives.max_ratio} times when it is unpacked",
            limit="max_ratio",
            value=archives.max_ratio,
            setting="ODF_WORKER_MAX_UNPACK_RATIO",
        )


# --- rows, before their values are made -------------------------------------------------------


def row_sizes(batch: pa.RecordBatch, done: int, limits: Limits) -> Sizes:
    """Return the bytes of each row. Raises `InputTooLarge` for a cell or a row above its limit."""
    rows: Sizes = np.zeros(batch.num_rows, np.int64)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        cells = sizes(column)
        if len(cells) and int(cells.max()) > limits.cell_bytes:
            row = done + int(np.argmax(cells > limits.cell_bytes)) + 1
            raise _too_long(f"row {row}, column `{name}`: the value", "cell", limits.cell_bytes)
        rows += cells
    if len(rows) and int(rows.max()) > limits.row_bytes:
        row = done + int(np.argmax(rows > limits.row_bytes)) + 1
        raise _too_long(f"row {row}: the record", "row", limits.row_bytes)
    return rows


def _too_long(what: str, limit: str, most: int) -> InputTooLarge:
    return InputTooLarge(
        f"{what} is longer than {most} bytes",
        limit=f"{limit}_bytes",
        value=most,
        setting="ODF_WORKER_MAX_ROW_BYTES",
    )


def sizes(column: pa.Array) -> Sizes:
    """Return the bytes of each value without a dictionary."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = np.append(sizes(column.dictionary), 0)
        at = pc.fill_null(column.indices, len(lengths) - 1).to_numpy(zero_copy_only=False)
        return np.asarray(lengths[at], np.int64)
    if pa.types.is_struct(kind):
        members = [sizes(member) for member in column.flatten()]
        return np.sum(members, axis=0, dtype=np.int64) if members else _fixed(column, 0)
    if pa.types.is_map(kind):
        return _listed(column, sizes(column.keys) + sizes(column.items))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _listed(column, sizes(column.values))
    if pa.types.is_fixed_size_list(kind):
        inner = sizes(column.values)[column.offset * kind.list_size :]
        inner = inner[: len(column) * kind.list_size].reshape(len(column), kind.list_size)
        return np.asarray(inner.sum(axis=1), np.int64)
    if _has_lengths(kind):
        lengths = pc.fill_null(pc.binary_length(column), 0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
    return _fixed(column, getattr(kind, "bit_width", 8) // 8 if pa.types.is_primitive(kind) else 8)


def _has_lengths(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _fixed(column: pa.Array, width: int) -> Sizes:
    return np.full(len(column), max(1, width), np.int64)


def _listed(column: pa.Array, inner: Sizes) -> Sizes:
    """Return the sizes of lists, given the sizes of all their elements."""
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(inner)])
    return np.asarray(np.diff(upto[column.offsets.to_numpy()]), np.int64)


def parts(rows: Sizes) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that are small enough to be created at once."""
    upto = np.cumsum(rows)
    start, taken = 0, 0
    while start < len(rows):
        stop = max(start + 1, int(np.searchsorted(upto, taken + BATCH_BYTES, side="right")))
        yield start, stop
        start, taken = stop, int(upto[stop - 1])
