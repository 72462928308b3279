"""Records as JSON values: three shapes, one format for each type.

Integers of any width and floats are numbers, decimals are text, bytes are lower-case hex; dates,
times and durations are text; NaN and infinities, which JSON cannot express, are null. Texts are
those of Arrow's Rust implementation (`arrow-json`), because proofs of answers contain their hash:

- a float has the fewest digits that its own width needs, and an exponent with a sign from 1e+16 on;
- an instant is RFC 3339 with the offset of its zone, `Z` for none, and nothing without a zone;
  where the offset has seconds, as before 1900, it is in UTC: RFC 3339 has no such offset, and
  Arrow's text, which leaves them out, is another instant;
- a fraction of a second has three, six or nine digits;
- years before 0 and after 9999 have a sign. What its calendar does not reach is a number as text:
  days, or nanoseconds since 1970.

Source: reference node, "dataFormat" parameter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from odf_protocol.instant import NANOS

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_DAY = date(1970, 1, 1).toordinal()
_DAY_MILLIS = 86_400_000
_DAY_NANOS = 86_400 * NANOS
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The calendar repeats itself after so many days, which are so many years."""
_YEARS = range(-262_143, 262_143)
"""Years of the calendar of the Rust implementation."""
_ZONE_S = (-62_135_510_400, 4_102_444_800)
"""Seconds since 1970 between which offsets of zones are looked up; beyond, the nearest one counts.
The tables of the Rust implementation end with the year 2099."""
_EXPONENT_FROM = 1e16
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
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
    named = form is not DataFormat.AOA
    columns = {n: values(table.column(i), named) for i, n in enumerate(table.column_names)}
    if form is DataFormat.SOA:
        return columns
    rows = zip(*columns.values(), strict=True)
    if form is DataFormat.AOA:
        return [list(row) for row in rows]
    return [dict(zip(columns, row, strict=True)) for row in rows]


def values(column: pa.ChunkedArray | pa.Array, named: bool = True) -> list[Any]:
    """Return the values of a column as JSON values. Structs are objects if `named`, else lists.

    A number whose text JSON encoders write in another way is a `msgspec.Raw`.
    """
    from pyarrow import types

    kind = column.type
    for is_kind, write in (
        (types.is_timestamp, _timestamps),
        (types.is_duration, _durations),
        (types.is_time, _times),
        (types.is_date, _dates),
        (types.is_decimal, _decimals),
        (types.is_floating, _floats),
        (_is_binary, _hex),
    ):
        if is_kind(kind):
            return write(column)
    if types.is_nested(kind):
        return _nested(column, named)
    if types.is_dictionary(kind):
        return values(column.cast(kind.value_type), named)
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


def _integers(column: Any) -> list[int | None]:
    """Return the integers that a temporal column stores."""
    import pyarrow as pa

    wide = column.type.bit_width == 64
    found: list[int | None] = column.cast(pa.int64() if wide else pa.int32()).to_pylist()
    return found


def _timestamps(column: Any) -> list[str | None]:
    nanos, zone = UNIT_NANOS[column.type.unit], column.type.tz
    offset = _zone_offsets(zone)
    return [
        None if v is None else _instant_text(v * nanos, offset(v * nanos), zone)
        for v in _integers(column)
    ]


def _instant_text(ns: int, offset_s: int, zone: str | None) -> str:
    if offset_s % 60:
        offset_s = 0
    day, rest = divmod(ns + offset_s * NANOS, _DAY_NANOS)
    text = _day_text(day)
    if text is None:
        return str(ns)
    hours, minutes = divmod(abs(offset_s) // 60, 60)
    shift = f"{'-' if offset_s < 0 else '+'}{hours:02}:{minutes:02}" if offset_s else "Z"
    return f"{text}T{_clock_text(rest)}{'' if zone is None else shift}"


def _zone_offsets(name: str | None) -> Callable[[int], int]:
    """Return the function from nanoseconds since 1970 to the offset of the zone in seconds."""
    zone = None if name is None else _zone(name)
    if zone is None:
        return lambda _: 0

    def offset(ns: int) -> int:
        seconds = min(max(ns // NANOS, _ZONE_S[0]), _ZONE_S[1])
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        found = moment.astimezone(zone).utcoffset()
        return 0 if found is None else int(found.total_seconds())

    return offset


@lru_cache
def _zone(name: str) -> tzinfo | None:
    """Return the zone; None for UTC, and for a zone that this machine does not know."""
    from zoneinfo import ZoneInfo

    if name.upper() in ("UTC", "Z"):
        return None
    if found := _OFFSET.fullmatch(name):
        shift = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-shift if found[1] == "-" else shift)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None


def _dates(column: Any) -> list[str | None]:
    if column.type.bit_width == 64:
        return [None if v is None else _date64_text(v) for v in _integers(column)]
    return [None if v is None else _day_text(v) or str(v) for v in _integers(column)]


def _date64_text(ms: int) -> str:
    day, rest = divmod(ms, _DAY_MILLIS)
    text = _day_text(day)
    return str(day) if text is None else f"{text}T{_clock_text(rest * UNIT_NANOS['ms'])}"


@lru_cache(4096)
def _day_text(day: int) -> str | None:
    """Return the date of a day since 1970; None beyond the calendar."""
    cycles, within = divmod(_FIRST_DAY + day - 1, _CYCLE_DAYS)
    found = date.fromordinal(within + 1)
    year = found.year + cycles * _CYCLE_YEARS
    if year not in _YEARS:
        return None
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}-{found.month:02}-{found.day:02}"


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
    return [None if v is None else _clock_text(v * nanos) for v in _integers(column)]


def _clock_text(ns: int) -> str:
    seconds, rest = divmod(ns, NANOS)
    fraction = f".{rest:09}" if rest else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _decimals(column: Any) -> list[str | None]:
    return [None if v is None else f"{v:f}" for v in column.to_pylist()]


def _floats(column: Any) -> list[float | msgspec.Raw | None]:
    import pyarrow as pa

    if column.type.bit_width < 64:
        # The double whose shortest text is the shortest text of the narrow number.
        column = column.cast(pa.float32()).cast(pa.string()).cast(pa.float64())
    return [
        v if v is None or -_EXPONENT_FROM < v < _EXPONENT_FROM else _float(v)
        for v in column.to_pylist()
    ]


def _float(value: float) -> msgspec.Raw | None:
    return msgspec.Raw(repr(value).encode()) if math.isfinite(value) else None


def _hex(column: Any) -> list[str | None]:
    return [None if v is None else v.hex() for v in column.to_pylist()]


def _nested(column: Any, named: bool) -> list[Any]:
    """Return lists as arrays, structs as objects or arrays, maps as arrays of key and value."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _nested(chunk, named)]
    kind = column.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        parts = [values(part, named) for part in column.flatten()]
        rows = zip(*parts, strict=True) if parts else [()] * len(column)
        shaped = [dict(zip(names, row, strict=True)) if named else list(row) for row in rows]
        return [row if valid else None for row, valid in zip(shaped, _valid(column), strict=True)]
    return [None if item is None else values(item, named) for item in _items(column)]


def _items(column: Any) -> list[Any]:
    """Return the inner array of each list; None for null."""
    return [scalar.values if scalar.is_valid else None for scalar in column]


def _valid(column: Any) -> list[bool]:
    return [bool(v) for v in column.is_valid().to_pylist()]
