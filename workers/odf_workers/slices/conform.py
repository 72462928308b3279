"""Convert columns returned by Spark to columns of the slice: exact types, and a check for nulls.

Spark has fewer types than a ledger: it returns unsigned integers wider, times in microseconds, and
every nested part as optional. The conversion changes no value.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput


class UnexpectedNulls(BadInput):
    """Nulls in a column that the dataset requires."""


class NullCounts:
    """Counts nulls in required columns over all batches of a slice."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._columns: dict[str, int] = {}
        self._elements: dict[str, int] = {}

    def count(self, batch: pa.RecordBatch) -> bool:
        """Count nulls in a batch; return whether none has been found so far."""
        for at, field in enumerate(self._schema):
            if not may_forbid_nulls(field):
                continue
            column = batch.column(at)
            if not field.nullable and column.null_count:
                self._add(self._columns, field.name, column.null_count)
            if pa.types.is_list(field.type) and not field.type.value_field.nullable:
                self._add(self._elements, field.name, column.flatten().null_count)
            for path, count in _missing_members(field.name, column):
                self._add(self._columns, path, count)
        return self.clean

    @property
    def clean(self) -> bool:
        return not self._columns and not self._elements

    def follow(self, other: NullCounts) -> None:
        """Add the counts of another slice of the batch."""
        for name, count in other._columns.items():
            self._add(self._columns, name, count)
        for name, count in other._elements.items():
            self._add(self._elements, name, count)

    def check(self) -> None:
        """Raise `UnexpectedNulls` for the first column with nulls."""
        for counts, what in ((self._columns, "Column"), (self._elements, "List column")):
            for name, count in counts.items():
                kind = "values" if what == "Column" else "elements"
                raise UnexpectedNulls(
                    f"{what} `{name}` contains {count} null {kind} while none were expected",
                    column=name,
                    count=count,
                )

    @staticmethod
    def _add(counts: dict[str, int], name: str, count: int) -> None:
        if count:
            counts[name] = counts.get(name, 0) + count


def may_forbid_nulls(field: pa.Field) -> bool:
    """Whether a column, or a part of its values, may be required."""
    return not field.nullable or pa.types.is_nested(field.type)


def _missing_members(path: str, column: pa.Array) -> Iterator[tuple[str, int]]:
    """Yield the nulls in required members of structs that are not null, at any depth."""
    kind = column.type
    if not pa.types.is_struct(kind):
        return
    there = column.filter(column.is_valid()) if column.null_count else column
    for at, member in enumerate(there.flatten()):
        inside = f"{path}.{kind.field(at).name}"
        if not kind.field(at).nullable:
            yield inside, member.null_count
        yield from _missing_members(inside, member)


def carrier(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column passes through Spark: unchanged, if Spark has that type."""
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal256(kind) and kind.precision > 38:
        return pa.string()
    return kind


def conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert values to exactly the wanted type, including required nested parts."""
    if array.type == wanted:
        return array
    if pa.types.is_list(wanted) and pa.types.is_list(array.type):
        values = conform(array.values, wanted.value_type)
        return _rebuild(array, wanted, [values])
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        members = [wanted.field(at) for at in range(wanted.num_fields)]
        parts = [_member(array, conform(array.field(f.name), f.type), f) for f in members]
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=members, mask=mask)
    return pc.cast(array, wanted)


def _member(parent: pa.Array, part: pa.Array, field: pa.Field) -> pa.Array:
    """Fill a required member where its struct is null, because writers check each member
    separately."""
    if field.nullable or not part.null_count or not parent.null_count:
        return part
    hidden = pc.and_(pc.is_null(part), pc.is_null(parent)).to_numpy(zero_copy_only=False)
    places = np.where(hidden, len(part), np.arange(len(part)))
    return pa.concat_arrays([part, pa.array([_some(field.type)], field.type)]).take(
        pa.array(places)
    )


def _some(kind: pa.DataType) -> Any:
    """Return some value of a type, for `pa.array`."""
    if pa.types.is_struct(kind):
        return {kind.field(at).name: _some(kind.field(at).type) for at in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return []
    if pa.types.is_nested(kind):
        return [_some(kind.value_type)] * getattr(kind, "list_size", 0)
    for matches, value in _VALUES:
        if matches(kind):
            return value
    if pa.types.is_fixed_size_binary(kind):
        return bytes(kind.byte_width)
    return 0


_VALUES: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_string, ""),
    (pa.types.is_large_string, ""),
    (pa.types.is_binary, b""),
    (pa.types.is_large_binary, b""),
    (pa.types.is_boolean, False),
    (pa.types.is_decimal, Decimal(0)),
)


def _rebuild(array: pa.Array, wanted: pa.DataType, children: list[pa.Array]) -> pa.Array:
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(
        wanted, len(array), buffers, array.null_count, array.offset, children
    )
