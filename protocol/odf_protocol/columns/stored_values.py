"""Which values a dataset may store, so that every reader can take them: one check of all new rows.

A text is UTF-8, a day or an instant lies in the years 1 to 9999 (so that milliseconds can count
it), a time of day is below 24 hours, and a decimal number has no more digits than its type. Rows of
any format, results of any engine and slices of other nodes are judged by this function. Binary
values and other numbers may be anything.

Floats in Parquet: writers leave NaN out of the bounds of a column, so floats have no bounds.

Readers order NaN above all numbers and then trust the bounds: a row group whose greatest number is
2 loses its NaN to `x > 3`, and one whose least and greatest number are the same is not read at all.
So this node writes no bounds of floats, and uses those of no other writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .arrow_values import is_list, is_text, storage_type

NAIVE = "times without a zone, which are taken to be in UTC"
"""What readers tell of a column of such times."""
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The days 0001-01-01 and 9999-12-31, counted from 1970-01-01."""
PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
MOST_COUNT = (1 << 63) - 1
SHOWN_BYTES = 60
"""Limit of the bytes of a text that an error shows."""
KNOWN_TYPES = 512


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value that must not be stored: its row (from 0), its column (with the path inside of it),
    the reason, and the value in a form that can be shown."""

    row: int
    column: str
    reason: str
    value: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.value!r}"


def first_misfit(column: str, values: pa.Array, *, texts_only: bool = False) -> Misfit | None:
    """Return the first value of a column that must not be stored; None if all are right.
    `texts_only` judges texts alone: before a conversion or a query that may change the others."""
    kind = storage_type(values.type)
    if not may_misfit(kind, texts_only=texts_only) or _fits(values, texts_only):
        return None
    start, stop = 0, len(values)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fits(values.slice(start, middle - start), texts_only):
            start = middle
        else:
            stop = middle
    return _told(start, column, values.slice(start, 1), texts_only)


@lru_cache(KNOWN_TYPES)
def may_misfit(kind: pa.DataType, *, texts_only: bool = False) -> bool:
    """Whether there are values of this type that must not be stored."""
    kind = storage_type(kind)
    if types.is_dictionary(kind):
        return may_misfit(kind.value_type, texts_only=texts_only)
    if types.is_nested(kind):
        children = [kind.field(at).type for at in range(kind.num_fields)]
        return any(may_misfit(child, texts_only=texts_only) for child in children)
    if is_text(kind):
        return True
    return not texts_only and bool(
        types.is_date(kind)
        or types.is_time(kind)
        or types.is_decimal(kind)
        or (types.is_timestamp(kind) and kind.unit != "ns")  # 64 bits end in the year 2262
    )


def _fits(values: pa.Array, texts_only: bool) -> bool:
    values = _stored(values)
    kind = values.type
    if not may_misfit(kind, texts_only=texts_only):
        return True
    if types.is_dictionary(kind):  # a value that no row uses does no harm
        return _fits(values.dictionary, texts_only) or _fits(_looked_up(values), texts_only)
    if types.is_nested(kind):
        return all(_fits(part, texts_only) for _, part in _parts("", values))
    if types.is_date(kind) or types.is_timestamp(kind):
        return _in_range(values, *_range(kind))
    if types.is_time(kind):
        return _in_range(values, 0, PER_DAY[kind.unit] - 1)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _in_range(values: pa.Array, first: int, last: int) -> bool:
    ends = pc.min_max(_counts(values))
    least, most = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (least >= first and most <= last)


def _range(kind: pa.DataType) -> tuple[int, int]:
    """Return the first and the last count of the type's unit that is in the years 1 to 9999."""
    if types.is_date32(kind):
        return FIRST_DAY, LAST_DAY
    per_day = PER_DAY["ms" if types.is_date64(kind) else kind.unit]
    return max(FIRST_DAY * per_day, -MOST_COUNT - 1), min((LAST_DAY + 1) * per_day - 1, MOST_COUNT)


def _stored(values: pa.Array) -> pa.Array:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _looked_up(values: pa.DictionaryArray) -> pa.Array:
    return values.dictionary.take(values.indices)


def _parts(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the parts of nested values that are there, with their paths. A null has no parts."""
    kind = values.type
    if types.is_struct(kind):
        for at, part in enumerate(values.flatten()):
            yield f"{path}.{kind.field(at).name}", part
    elif types.is_map(kind):
        offsets = values.offsets
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        yield f"{path}.key", values.keys.slice(first, last - first)
        yield f"{path}.value", values.items.slice(first, last - first)
    elif is_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        yield f"{path}[]", values.flatten()


def _told(row: int, path: str, values: pa.Array, texts_only: bool) -> Misfit:
    """Describe the value of an array of one row, or of the first of its parts, that is wrong."""
    values = _stored(values)
    if types.is_dictionary(values.type):
        return _told(row, path, _looked_up(values), texts_only)
    for name, part in _parts(path, values):
        for at in range(len(part)):
            if not _fits(part.slice(at, 1), texts_only):
                return _told(row, name, part.slice(at, 1), texts_only)
    reason, value = _reason(values)
    return Misfit(row, path, reason, value)


def _reason(values: pa.Array) -> tuple[str, str]:
    kind = values.type
    if is_text(kind):
        return "a text that is no UTF-8", _as_text(values)
    if types.is_decimal(kind):
        return f"a number of more than the {kind.precision} digits of {kind}", "too many digits"
    count = int(_counts(values)[0].as_py())
    if types.is_time(kind):
        shown = f"{count} {kind.unit}" if count < 0 else _time_text(count, PER_DAY[kind.unit])
        return "a time of day that is not below 24 hours", shown
    if types.is_date(kind):
        day = count if types.is_date32(kind) else count // PER_DAY["ms"]
        return "a day outside of the years 1 to 9999", str(np.datetime64(day, "D"))
    second = count // (PER_DAY[kind.unit] // PER_DAY["s"])
    return "a time outside of the years 1 to 9999", f"{np.datetime64(second, 's')}Z"


def _counts(values: pa.Array) -> pa.Array:
    """Return days and times as numbers of their unit."""
    return values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())


def _time_text(count: int, per_day: int) -> str:
    seconds = count * 86_400 // per_day
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _as_text(values: pa.Array) -> str:
    raw = values.cast(pa.large_string()).cast(pa.large_binary())[0].as_py()
    return escaped(raw[:SHOWN_BYTES]) + ("…" if len(raw) > SHOWN_BYTES else "")


def escaped(raw: bytes) -> str:
    """Return the text, with bytes that are no UTF-8 as `\\xff`."""
    return raw.decode(errors="backslashreplace")


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows that every reader of texts takes: bytes that are no UTF-8 become `\\xff`. Slices
    of other nodes, and those of earlier versions, may have them."""
    for at, column in enumerate(batch.columns):
        if first_misfit("", column, texts_only=True) is not None:
            batch = batch.set_column(at, batch.schema.field(at), _with_escapes(column))
    return batch


def _with_escapes(values: pa.Array) -> pa.Array:
    kind = values.type
    if types.is_dictionary(kind):
        return _with_escapes(_looked_up(values)).dictionary_encode().cast(kind)
    if is_text(kind):
        raw = values.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return pa.array([None if each is None else escaped(each) for each in raw], kind)
    if not types.is_nested(kind) or not may_misfit(kind, texts_only=True):
        return values
    mask = values.is_null() if values.null_count else None
    if types.is_struct(kind):
        parts = [_with_escapes(part) for part in values.flatten()]
        members = [kind.field(at) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=members, mask=mask)
    return pa.concat_arrays([_listed(values.slice(at, 1)) for at in range(len(values))])


def _listed(values: pa.Array) -> pa.Array:
    """Return an array of one list or map with escapes in its texts."""
    kind = values.type
    if not values.is_valid()[0].as_py():
        return pa.nulls(1, kind)
    (*_, parts) = zip(*_parts("", values), strict=True)
    made = [_with_escapes(part) for part in parts]
    if types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(*made, type=kind)
    offsets = pa.array([0, len(made[0])], pa.int64() if types.is_large_list(kind) else pa.int32())
    made_by = pa.MapArray if types.is_map(kind) else type(values)
    return made_by.from_arrays(offsets, *made, type=kind)


def leaves(columns: Iterable[pa.Field]) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the leaf columns of Parquet: the path and the type of each."""
    for column in columns:
        yield from _leaves(column.name, column.type)


def bounded_leaves(columns: Iterable[pa.Field]) -> list[str]:
    """Return the paths of leaf columns that have bounds: all but floats. It is the argument
    `write_statistics` of Arrow's writer."""
    return [path for path, kind in leaves(columns) if not pa.types.is_floating(kind)]


def has_floats(columns: Iterable[pa.Field]) -> bool:
    """Return whether any column is of floats, or has floats inside."""
    return any(pa.types.is_floating(kind) for _, kind in leaves(columns))


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _leaves(f"{path}.{kind.field(at).name}", kind.field(at).type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_nested(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_dictionary(kind):
        yield path, kind.value_type
    else:
        yield path, kind
