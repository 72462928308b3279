"""Bounds of columns as the footers of slices state them.

Who wrote a slice may have stated wrong bounds, and these hide rows. So they only serve readers who
can prove that they found the right rows, and who look at all rows if they cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from odf_protocol.columns.slice_file import (
    UNREADABLE,
    Chunk,
    RowGroup,
    open_slice,
    row_groups,
    schema_of,
)
from odf_protocol.errors import NodeError

from .bounds import LONGEST
from .learned import Bounds, LearnedBounds

FOOTERS = "footers"
"""The name of bounds of footers among learned bounds, in place of a dataset's."""
_NONE = Bounds("", None, None)
"""In place of bounds that a footer does not state. It fits no column."""
Stated = dict[str, list[Bounds]]
"""Bounds by column, in the order of row groups."""


def bounds_of_groups(
    file: pq.ParquetFile, groups: Sequence[RowGroup], columns: Iterable[str]
) -> Stated:
    """Return the bounds that a footer states; columns have `_NONE` where it states none."""
    schema, own, told = file.metadata.schema, file.schema_arrow, schema_of(file)
    paths = [schema.column(at).path for at in range(len(schema))]
    found: Stated = {}
    for name in columns:
        found[name] = [_NONE] * len(groups)
        if paths.count(name) != 1 or own.names.count(name) != 1:
            continue
        kind = own.field(name).type
        if kind != told.field(name).type or pa.types.is_nested(kind):
            continue
        at = paths.index(name)
        found[name] = [
            _stated(each.chunks[at], kind) if len(each.chunks) == len(paths) else _NONE
            for each in groups
        ]
    return found


def stated_bounds(
    known: LearnedBounds,
    columns: Sequence[str],
    slices: Mapping[str, Callable[[], BinaryIO]],
) -> dict[str, list[Bounds | None]]:
    """Return the bounds of slices, given by hash with a function that opens them, in their order;
    read the footers of those that are not `known` yet."""
    there = known.of(FOOTERS, columns, list(slices))
    none: list[Bounds | None] = [None] * len(slices)
    found = {name: there.get(name, list(none)) for name in columns}
    for at, (name, opened) in enumerate(slices.items()):
        missing = [column for column in columns if found[column][at] is None]
        if not missing:
            continue
        read = _read(opened, missing)
        known.learn(FOOTERS, [(name, column, bounds) for column, bounds in read.items()])
        for column, bounds in read.items():
            found[column][at] = bounds
    return found


def _read(opened: Callable[[], BinaryIO], columns: Sequence[str]) -> dict[str, Bounds]:
    """Return the bounds of a slice; of one that cannot be read none, since its reader says why."""
    try:
        with opened() as stream:
            if not stream.seekable():
                return dict.fromkeys(columns, _NONE)
            file = open_slice(stream)
            groups = bounds_of_groups(file, row_groups(stream, bounds=True), columns)
    except (NodeError, *UNREADABLE):
        return {}
    return {name: _together(each) for name, each in groups.items()}


def _stated(chunk: Chunk, kind: pa.DataType) -> Bounds:
    """Return the bounds of a column in a row group. Floats have none, because NaN lies outside."""
    stated = chunk.bounds
    if stated is None:
        return _NONE
    if stated.least is None or stated.greatest is None:
        all_null = stated.nulls == chunk.num_values
        return Bounds(str(kind), None, None) if all_null else _NONE
    ends = [_value(each, kind) for each in (stated.least, stated.greatest)]
    return _NONE if None in ends else Bounds(str(kind), *ends)


def _value(raw: bytes, kind: pa.DataType) -> int | str | None:
    """Return a bound as bounds are written; None if it has not the form of the type."""
    is_number = pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind)
    if is_number or pa.types.is_date32(kind):
        fits = len(raw) == (8 if kind.bit_width == 64 else 4)
        return int.from_bytes(raw, "little", signed=True) if fits else None
    if pa.types.is_string(kind) and len(raw) <= LONGEST:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return None
    return None


def _together(groups: Sequence[Bounds]) -> Bounds:
    """Return the bounds of all row groups; none if those of one are not stated."""
    if not groups or _NONE in groups:
        return _NONE
    least = [each.least for each in groups if each.least is not None]
    greatest = [each.greatest for each in groups if each.greatest is not None]
    ends: Any = (min(least), max(greatest)) if least else (None, None)
    return Bounds(groups[0].type, *ends)
