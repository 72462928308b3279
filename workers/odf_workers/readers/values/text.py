"""Convert text to typed values by the rules of the reference reader.

Columns of many values are cast at once where Arrow's cast agrees with the rules; others value by
value. Rules: integers and floats ignore blanks around them; floats are rounded once, from the text
to their type; surplus digits of decimals and of times are cut, never rounded; no zone means UTC,
others are offsets or names of the zone database; times are in the years 1 to 9999; nothing is
guessed; no finite text becomes infinite.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_DOWN, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.sources.time_patterns import zone_offset

UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_SECONDS_OF_1973, _JANUARY_1970 = 10**8, 31 * 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = r"^[+-]?[0-9]+$"
_FLOAT = r"(?i)^[+-]?(([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"
_OF_INTEGERS, _OF_FLOATS = "+-0123456789", "+-.0123456789eEaAfFiInNtTyY"
"""For texts of only these characters, Arrow accepts the same numbers as the rules."""
_DECIMAL = r"(?i)^[+-]?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]{1,4})?$"
_SHORT_DECIMAL = r"^[+-]?([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})$"
"""Decimals that fit into 38 digits at any scale; beyond that, Arrow overflows without an error."""
_PLAIN_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?)?$"
_ZULU_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?Z$"
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[ Tt](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?"
    r"(?: ?(?:([Zz])|([+-])(\d\d)(?::?(\d\d))?|([A-Za-z][A-Za-z0-9_/+-]+)))?)?",
    re.ASCII,
)
_BASIC = re.compile(
    r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(?:(\d\d)(?:[.,]\d+)?)?(?:Z|[+-]\d\d(?:\d\d)?)?)?",
    re.ASCII,
)
"""ISO 8601 without separators: `20200131`, `20200131T235959Z`."""
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?", re.ASCII)
_LARGEST = {"halffloat": 65_520.0, "float": 2.0**128 - 2.0**103}
"""From these numbers on, a narrow type would round to infinity."""
_PADDED_TEXT = r"^\s*[+-]?0[0-9]"
_PADDED = re.compile(_PADDED_TEXT)
FEW = 16
"""Number of values up to which a column is cast value by value, since that is quicker."""
SHOWN = 4
"""Number of first values that show the form of a column of times."""
_ASCII_BLANKS = " \t\n\r\f\v"


class BadValue(ValueError):
    """A value that its column's type cannot represent; `index` is its position in the array."""

    def __init__(self, index: int, value: object, column: int = 0) -> None:
        super().__init__(f"bad value at {index}")
        self.index, self.value, self.column = index, value, column

    def of_column(self, column: int) -> BadValue:
        return BadValue(self.index, self.value, column)


def cast_text(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast a string array. Raises `BadValue` at the first value that does not fit.

    Types without a text form raise `NotImplementedError`; see `has_text_form`.
    """
    if array.type == wanted:
        return array
    for matches, whole_column, one_value in _RULES:
        if matches(wanted):
            cast = whole_column(array, wanted) if len(array) > FEW else None
            return _each(array, wanted, one_value) if cast is None else cast
    raise NotImplementedError(f"no text form for {wanted}")


def has_text_form(wanted: pa.DataType) -> bool:
    return any(matches(wanted) for matches, _, _ in _RULES)


def parse_one(text: str, wanted: pa.DataType) -> Any:
    """Parse one value to the form that `pa.array` accepts for the type. Raises `ValueError`."""
    for matches, _, one_value in _RULES:
        if matches(wanted):
            return one_value(text, wanted)
    raise ValueError(f"no text form for {wanted}")


def parse_timestamp(text: str, wanted: pa.DataType) -> int:
    """Return the count of the type's unit since 1970, cutting further digits. Raises
    `ValueError`."""
    match, local = _read_time(text)
    if match[12]:
        offset = zone_offset(match[12], local)
    else:
        offset = timedelta(hours=int(match[10] or 0), minutes=int(match[11] or 0))
        offset = -offset if match[9] == "-" else offset
        timezone(offset)  # refuse an offset of a day or more
    try:
        delta = (local - offset) - _EPOCH
    except OverflowError:
        raise ValueError("outside of the years 1 to 9999") from None
    nanos = (delta.days * 86_400 + delta.seconds) * 1_000_000_000
    nanos += int((match[7] or "")[:9].ljust(9, "0"))
    return nanos // UNIT_NANOS[wanted.unit]


def _read_time(text: str) -> tuple[re.Match[str], datetime]:
    """Return the parts of an ISO 8601 time, and the time as a clock shows it, in no zone. Raises
    `ValueError`."""
    match = _TIMESTAMP.fullmatch(_extended(text))
    if match is None:
        raise ValueError("not an ISO 8601 time")
    hour, minute, second = (int(part or 0) for part in match.group(4, 5, 6))
    day = int(match[1]), int(match[2]), int(match[3])
    return match, datetime(*day, hour, minute, second, tzinfo=UTC)


def local_time(text: str) -> str | None:
    """Return a time of day that names no zone, midnight of a date; None for other texts."""
    match = _TIMESTAMP.fullmatch(text := _extended(text))
    if match is None or any(match.group(8, 9, 12)):
        return None
    return text if match[4] else f"{text}T00:00"


def with_zone(array: pa.Array, zone: str) -> pa.Array | None:
    """Return times without a zone in UTC; None if some have another form than usual, or are no
    times, or if clocks of the zone showed one twice or never."""
    if not _all_match(array, _PLAIN_TIME) or _holds_year_zero(array):
        return None
    try:
        local = pc.cast(array, pa.timestamp("ms"))
        moments = pc.assume_timezone(local, zone, ambiguous="raise", nonexistent="raise")
        return pc.cast(pc.cast(moments, pa.timestamp("ms", "UTC")), pa.string())
    except pa.ArrowInvalid:
        return None


def _extended(text: str) -> str:
    """Add separators to the basic form of ISO 8601; return other texts unchanged."""
    match = _BASIC.fullmatch(text)
    if match is None:
        return text
    day = "-".join(match.group(1, 2, 3))
    if match[4] is None:
        return day
    return f"{day}T{':'.join(filter(None, match.group(4, 5, 6)))}{text[15 if match[6] else 13 :]}"


def parse_date(text: str, _: pa.DataType) -> date:
    """Return a date, or the day of a time as it is written, whatever its zone. Raises
    `ValueError`."""
    match = _DATE.fullmatch(text)
    if match is not None:
        return date(int(match[1]), int(match[2]), int(match[3]))
    parse_timestamp(text, pa.timestamp("s"))  # refuses what is no time
    return _read_time(text)[1].date()


def parse_decimal(text: str, wanted: pa.DataType) -> Decimal:
    """Return a decimal of the type's scale, cutting surplus digits. Raises `ValueError`."""
    text = text.strip(_ASCII_BLANKS)
    if re.match(_DECIMAL, text) is None:
        raise ValueError("not a decimal number")
    context = Context(prec=wanted.precision, rounding=ROUND_DOWN)
    try:
        return Decimal(text).quantize(Decimal(1).scaleb(-wanted.scale), context=context)
    except InvalidOperation:
        raise ValueError("too many digits") from None


def parse_integer(text: str, _: pa.DataType) -> int:
    text = text.strip(_ASCII_BLANKS)
    if re.match(_INTEGER, text) is None:
        raise ValueError("not a whole number")
    return int(text)


def parse_float(text: str, wanted: pa.DataType) -> float:
    """Return a double that becomes the number of the type that is nearest to the text. Raises
    `ValueError`."""
    text = text.strip(_ASCII_BLANKS)
    if re.match(_FLOAT, text) is None:
        raise ValueError("not a number")
    nearest = float(text) if pa.types.is_float64(wanted) else _for_narrower(text)
    most = _LARGEST.get(str(wanted), math.inf)
    if not abs(nearest) < most and text.lower().lstrip("+-")[0] not in "in":
        raise ValueError("too large for the type")
    return nearest


def _for_narrower(text: str) -> float:
    """Return a double that a narrower type rounds as it would round the text.

    The nearest double may lie in the middle of two numbers of the narrower type where the text does
    not. Of the two doubles around the text, the one with an odd last bit never does.
    """
    nearest = float(text)
    if not math.isfinite(nearest) or not nearest:
        return nearest
    exact = Decimal(text)
    is_odd = struct.pack("<d", nearest)[0] & 1
    if is_odd or exact == nearest:
        return nearest
    return math.nextafter(nearest, math.inf if exact > nearest else -math.inf)


def likely_seconds(unit: str) -> range:
    """Return the numbers that are times of January 1970 as counts of a unit, and as counts of
    seconds are of 1973 or later."""
    if unit == "s":
        return range(0)
    return range(_SECONDS_OF_1973, _JANUARY_1970 * (UNIT_NANOS["s"] // UNIT_NANOS[unit]))


_YEARS, _SERIAL_DAYS = range(1000, 3000), range(25_569, 73_051)
"""Years, and days of 1970 to 2099 as spreadsheets count them, from 1900 on. As days since 1970 they
are of 2040 to 2170."""
NO_DAYS = "taken for days since 1970, and look like years or days of a spreadsheet"

NO_MOMENTS = "taken for counts of {} since 1970, and look like years or days of a spreadsheet"


def are_likely_days(count: int) -> bool:
    """Whether a number may well be a count of days since 1970, and no year or day of a
    spreadsheet."""
    return count not in _YEARS and count not in _SERIAL_DAYS


def refuse_padded(array: pa.Array) -> None:
    """Raise `BadValue` for the first text whose figures begin with a zero that a number would
    lose."""
    at = first_padded(array)
    if at is not None:
        raise BadValue(at, array[at].as_py())


def first_padded(array: pa.Array) -> int | None:
    """Return the place of the first text whose figures begin with a zero that a number would
    lose; None if there is none."""
    if not _may_be_padded(array):
        return None
    found = pc.index(pc.match_substring_regex(array, _PADDED_TEXT), True).as_py()
    return None if found < 0 else int(found)


def _may_be_padded(array: pa.Array) -> bool:
    """Whether a text begins with two figures of which the first is 0, or with another sign; it
    takes a fraction of the time of a pattern."""
    starts, content = texts_content(array)
    begins = starts[:-1][np.diff(starts) > 1] - (starts[0] if len(starts) else 0)
    first, second = content[begins], content[begins + 1]
    is_padded_zero = (first == ord("0")) & (second - ord("0") < 10)
    return bool((is_padded_zero | (first < ord("0"))).any())


def is_padded(text: str) -> bool:
    """Whether figures begin with a zero that a number would lose."""
    return _PADDED.match(text) is not None


def parse_bool(text: str, _: pa.DataType) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("neither true nor false")
    return lowered == "true"


def parse_time(text: str, wanted: pa.DataType) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("not a time of day")
    hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("not a time of day")
    seconds = hour * 3600 + minute * 60 + second
    nanos = seconds * 1_000_000_000 + int((match[4] or "")[:9].ljust(9, "0"))
    return nanos // UNIT_NANOS[wanted.unit]


def _each(array: pa.Array, wanted: pa.DataType, one: Callable[[str, pa.DataType], Any]) -> pa.Array:
    """Convert value by value, each distinct text once."""
    known: dict[str | None, Any] = {None: None}
    values = array.to_pylist()
    for index, text in enumerate(values):
        if text in known:
            continue
        try:
            known[text] = one(text, wanted)
        except (ValueError, OverflowError):
            raise BadValue(index, text) from None
    try:
        return pa.array([known[text] for text in values], wanted)
    except (pa.ArrowInvalid, OverflowError):
        raise _first_misfit(values, known, wanted) from None


def _first_misfit(
    values: list[str | None], known: dict[str | None, Any], wanted: pa.DataType
) -> BadValue:
    for index, text in enumerate(values):
        try:
            pa.array([known[text]], wanted)
        except (pa.ArrowInvalid, OverflowError):
            return BadValue(index, text)
    return BadValue(0, values[0] if values else None)


def _all_match(array: pa.Array, pattern: str) -> bool:
    # `all` skips nulls and is null over nulls only.
    return pc.all(pc.match_substring_regex(array, pattern)).as_py() is not False


def _matches(pattern: str) -> Callable[[pa.Array], bool]:
    return partial(_all_match, pattern=pattern)


def _has_only(characters: str) -> Callable[[pa.Array], bool]:
    """Return a check that texts have only these characters; it takes a tenth of the time of a
    pattern."""
    known = np.zeros(256, np.bool_)
    known[list(characters.encode())] = True

    return lambda array: bool(known[texts_content(array)[1]].all())


def _has_form_of_first(array: pa.Array) -> bool:
    """Whether all texts have the length of the first, digits where it has digits, and the same
    characters elsewhere."""
    starts, content = texts_content(array)
    length = int(starts[1] - starts[0]) if len(array) else 0
    if array.null_count or not length or (np.diff(starts) != length).any():
        return False
    first = content[:length]
    digits = first - ord("0") < 10
    least = np.where(digits, np.uint8(ord("0")), first)
    spread = np.where(digits, np.uint8(9), np.uint8(0))
    return bool((content.reshape(-1, length) - least <= spread).all())


def texts_content(array: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Return the start positions of texts (and the last end), and the bytes of all texts."""
    _, offsets, content = array.buffers()
    kind = np.int64 if pa.types.is_large_string(array.type) else np.int32
    starts = np.frombuffer(offsets, kind)[array.offset : array.offset + len(array) + 1]
    if content is None or not len(array):
        return starts, np.empty(0, np.uint8)
    return starts, np.frombuffer(content, np.uint8)[starts[0] : starts[-1]]


def _guarded(
    agrees: Callable[[pa.Array], bool], *, trim: bool = False, infinite: bool = False
) -> Callable[[pa.Array, pa.DataType], Any]:
    """Use Arrow's cast, but only for text in a form on which Arrow and the rules agree. `infinite`:
    Arrow makes numbers infinite that the rules refuse."""

    def cast(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
        texts = pc.ascii_trim_whitespace(array) if trim else array
        if not agrees(texts):
            return None
        try:
            made = pc.cast(texts, wanted)
        except pa.ArrowInvalid:
            return None
        return None if infinite and pc.any(pc.is_inf(made)).as_py() else made

    return cast


def _holds_year_zero(array: pa.Array) -> bool:
    """Whether a text begins with the year 0, which Arrow has and the rules refuse."""
    return pc.any(pc.starts_with(array, "0000")).as_py() is True


def _are_dates(array: pa.Array) -> bool:
    return _all_match(array, _PLAIN_DATE) and not _holds_year_zero(array)


def _cast_timestamp(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    if _holds_year_zero(array):
        return None
    for pattern, read_as in (
        (_PLAIN_TIME, pa.timestamp("ms")),
        (_ZULU_TIME, pa.timestamp("ms", "UTC")),
    ):
        # Usually a column has one form, which the first values show. Comparing is quicker than
        # matching.
        if _all_match(array.slice(0, SHOWN), pattern) and (
            len(array) <= SHOWN or _has_form_of_first(array) or _all_match(array, pattern)
        ):
            try:
                millis = pc.cast(array, read_as).cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))
                if wanted.unit == "s":
                    millis = pc.floor_temporal(millis, unit="second")
                return pc.cast(millis, pa.timestamp(wanted.unit, "UTC")).cast(wanted)
            except pa.ArrowInvalid:
                return None
    return None


def _cast_bool(array: pa.Array, _: pa.DataType) -> pa.Array | None:
    lowered = pc.ascii_lower(array)
    true = pc.equal(lowered, "true")
    if pc.all(pc.or_(true, pc.equal(lowered, "false"))).as_py() is False:
        return None
    return true


def _same(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type == wanted else array.cast(wanted)


def _not_at_once(_: pa.Array, __: pa.DataType) -> None:
    return None


def _parse_text(text: str, _: pa.DataType) -> str:
    return text


def _no_value(text: str, _: pa.DataType) -> None:
    raise ValueError(f"no value was expected, {text!r} found")


_RULES: tuple[tuple[Callable[[pa.DataType], bool], Any, Callable[[str, Any], Any]], ...] = (
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), _same, _parse_text),
    (pa.types.is_integer, _guarded(_has_only(_OF_INTEGERS), trim=True), parse_integer),
    (pa.types.is_float16, _not_at_once, parse_float),  # Arrow's cast rounds it twice
    (pa.types.is_floating, _guarded(_has_only(_OF_FLOATS), trim=True, infinite=True), parse_float),
    (pa.types.is_boolean, _cast_bool, parse_bool),
    (pa.types.is_decimal, _guarded(_matches(_SHORT_DECIMAL), trim=True), parse_decimal),
    (pa.types.is_timestamp, _cast_timestamp, parse_timestamp),
    (pa.types.is_date, _guarded(_are_dates), parse_date),
    (pa.types.is_time, _not_at_once, parse_time),
    (pa.types.is_null, _not_at_once, _no_value),
)
