"""Records as JSON values: three shapes, one format for each type.

Integers of any width and floats are numbers, decimals are text, bytes are lower-case hex, instants
are RFC 3339 with `Z`; dates, times and durations are text; NaN and infinities, which JSON cannot
express, are null.
Source: reference node, "dataFormat" parameter.
"""

from __future__ import annotations

import math
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from odf_node.protocol.instant import NANOS, Instant, MalformedInstant

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_DAY = date(1970, 1, 1).toordinal()
_DAY_MILLIS = 86_400_000
UNIT_NANOS = {"s": NANOS, "ms": 1_000_000, "us": 1_000, "ns": 1}


class DataFormat(StrEnum):
    """Shapes of a set of records; the values are the canonical names, which responses repeat."""

    AOS = "JsonAoS"
    SOA = "JsonSoA"
    AOA = "JsonAoA"


def shaped(table: pa.Table | None, form: DataFormat) -> Any:
    """Return the records in that shape; an empty array if `table` is None."""
    if table is None:
        return []
    columns = {name: values(table.column(i)) for i, name in enumerate(table.column_names)}
    if form is DataFormat.SOA:
        return columns
    rows = zip(*columns.values(), strict=True)
    if form is DataFormat.AOA:
        return [list(row) for row in rows]
    return [dict(zip(columns, row, strict=True)) for row in rows]


def values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return the values of a column as JSON values."""
    from pyarrow import types

    kind = column.type
    for is_kind, write in (
        (types.is_timestamp, _timestamps),
        (types.is_duration, _durations),
        (types.is_time, _times),
        (types.is_date, _dates),
        (types.is_decimal, _texts),
        (types.is_floating, _floats),
        (_is_binary, _hex),
        (_is_nested, _nested),
    ):
        if is_kind(kind):
            return write(column)
    if types.is_dictionary(kind):
        return values(column.cast(kind.value_type))
    plain: list[Any] = column.to_pylist()
    return plain


def _is_binary(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _is_nested(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_nested(kind))


def _integers(column: Any) -> list[int | None]:
    """Return the integers that a temporal column stores."""
    import pyarrow as pa

    wide = column.type.bit_width == 64
    found: list[int | None] = column.cast(pa.int64() if wide else pa.int32()).to_pylist()
    return found


def _timestamps(column: Any) -> list[str | None]:
    nanos = UNIT_NANOS[column.type.unit]
    return [None if v is None else _instant_text(v * nanos) for v in _integers(column)]


def _instant_text(ns: int) -> str:
    """Format as RFC 3339; instants that it cannot express become their nanoseconds."""
    try:
        return str(Instant(ns))
    except MalformedInstant:
        return str(ns)


def _dates(column: Any) -> list[str | None]:
    per_day = _DAY_MILLIS if column.type.bit_width == 64 else 1
    return [None if v is None else _date_text(v // per_day) for v in _integers(column)]


def _date_text(day: int) -> str:
    """Format as ISO 8601; dates that it cannot express become their days since 1970."""
    try:
        return str(date.fromordinal(_FIRST_DAY + day))
    except (ValueError, OverflowError):
        return str(day)


def _durations(column: Any) -> list[str | None]:
    nanos = UNIT_NANOS[column.type.unit]
    return [None if v is None else _duration_text(v * nanos) for v in _integers(column)]


def _duration_text(ns: int) -> str:
    """Format as an ISO 8601 duration in seconds."""
    seconds, rest = divmod(abs(ns), NANOS)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{'-' if ns < 0 else ''}PT{seconds}{fraction}S"


def _times(column: Any) -> list[str | None]:
    nanos = UNIT_NANOS[column.type.unit]
    return [None if v is None else _time_text(v * nanos) for v in _integers(column)]


def _time_text(ns: int) -> str:
    seconds, rest = divmod(ns, NANOS)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _texts(column: Any) -> list[str | None]:
    return [None if v is None else str(v) for v in column.to_pylist()]


def _floats(column: Any) -> list[float | None]:
    return [v if v is not None and math.isfinite(v) else None for v in column.to_pylist()]


def _hex(column: Any) -> list[str | None]:
    return [None if v is None else v.hex() for v in column.to_pylist()]


def _nested(column: Any) -> list[Any]:
    """Return lists as arrays, structs as objects, maps as arrays of key and value."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _nested(chunk)]
    kind = column.type
    if pa.types.is_struct(kind):
        members = {f.name: values(part) for f, part in zip(kind, column.flatten(), strict=True)}
        rows = [dict(zip(members, row, strict=True)) for row in zip(*members.values(), strict=True)]
        return [row if valid else None for row, valid in zip(rows, _valid(column), strict=True)]
    return [None if item is None else values(item) for item in _items(column)]


def _items(column: Any) -> list[Any]:
    """Return the inner array of each list; None for null."""
    return [scalar.values if scalar.is_valid else None for scalar in column]


def _valid(column: Any) -> list[bool]:
    return [bool(v) for v in column.is_valid().to_pylist()]
