"""Convert typed columns to the types of a schema.

Numbers are cut to whole ones, times to their unit; text is parsed as the text of any source, and
written in one form. A conversion that would lose more than digits is refused.

What texts say beyond what their columns keep: digits of times and numbers, times of a day.

Readers cut these, as the reference does, and the publisher is told, once for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odf_protocol.columns.float_texts import SAFE_DIGITS, keeps
from odf_protocol.columns.stored_values import NAIVE
from odf_storage.datasets.read.records import values

from .forms import is_number
from .text import (
    NO_DAYS,
    BadValue,
    are_likely_days,
    cast_text,
    first_padded,
    has_text_form,
    likely_seconds,
    texts_content,
)

FINER = "times finer than {}, which are cut: declare it as a text or as a whole number to keep them"
DIGITS = (
    "numbers with more digits after the point than {}, of which the rest is cut: declare more "
    "digits, or a text, to keep them"
)
OF_FLOAT = (
    "numbers with more digits than a {} keeps, of which the rest is cut: declare it as a Decimal "
    "or as a text to keep them"
)
PADDED = (
    "figures with leading zeros, which a number does not keep: declare it as a text to keep them"
)
OF_DAY = "times of day, which are cut: declare it as a Timestamp or as a text to keep them"
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TIME_OF_DAY = r"^[0-9-]+[Tt ].*[1-9]"
_DOUBLE = 64
_SIGNS = (len("+01"), len("+0100"), len("+01:00"))
"""Places of the sign of an offset, from the end of a time."""
_DAY_CHARS = len("2025-01-31")
_SMALL = np.uint8(ord("a") ^ ord("A"))


MAX_LEFT_OUT = 20
"""Limit of the fields of objects that are told."""
LEFT_OUT = "column `{}` has objects with the field `{}`, which its type does not name: not stored"


def left_out(found: pa.DataType, wanted: pa.DataType) -> Iterator[str]:
    """Yield the names of members of structs, at any depth, that the wanted type does not have."""
    if types.is_struct(found) and types.is_struct(wanted):
        members = {wanted.field(at).name: wanted.field(at).type for at in range(wanted.num_fields)}
        for at in range(found.num_fields):
            member = found.field(at)
            if member.name in members:
                yield from left_out(member.type, members[member.name])
            else:
                yield member.name
    elif types.is_map(found) and types.is_map(wanted):
        yield from left_out(found.item_type, wanted.item_type)
    elif types.is_nested(found) and hasattr(found, "value_type") and hasattr(wanted, "value_type"):
        yield from left_out(found.value_type, wanted.value_type)


class Losses:
    """Tells of each column of a file once if its texts lost something. `tell` takes a warning."""

    def __init__(self, tell: Callable[[str], object] = lambda _: None) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self._naive: set[str] = set()
        self._padded: set[str] = set()
        self._left_out: set[tuple[str, str]] = set()

    def met(self, column: str, texts: pa.Array, wanted: pa.DataType) -> None:
        """Note texts that have become values of the type."""
        if column not in self._told and may_lose(wanted) and (said := lost(texts, wanted)):
            self._told.add(column)
            self._tell(f"column `{column}` has {said}")
        if types.is_timestamp(wanted) and column not in self._naive and _has_naive(texts):
            self._naive.add(column)
            self._tell(f"column `{column}` has {NAIVE}")
        if is_number(wanted) and column not in self._padded and first_padded(texts) is not None:
            self.met_padded(column)

    def met_padded(self, column: str) -> None:
        """Note a text with a leading zero that has become a number."""
        if column not in self._padded:
            self._padded.add(column)
            self._tell(f"column `{column}` has {PADDED}")

    def met_one(self, column: str, text: str, wanted: pa.DataType) -> None:
        """Note one text that has become a value of a type that may lose something."""
        if column not in self._told or column not in self._naive:
            self.met(column, pa.array([text]), wanted)

    def met_float(self, column: str, text: str, value: float, wanted: pa.DataType) -> None:
        """Note one text that has become a float."""
        if column not in self._told and not keeps(text, value, wanted.bit_width):
            self._told.add(column)
            self._tell(f"column `{column}` has {_of_float(wanted)}")

    def met_number(self, column: str, said: str) -> None:
        """Note a number that has become a value of another meaning."""
        if column not in self._told:
            self._told.add(column)
            self._tell(f"column `{column}` has numbers that are {said}")

    def met_left_out(self, column: str, names: Iterable[str]) -> None:
        """Note fields of an object for which its struct has no member."""
        for name in sorted(names):
            if (column, name) not in self._left_out and len(self._left_out) < MAX_LEFT_OUT:
                self._left_out.add((column, name))
                self._tell(LEFT_OUT.format(column, name[:100]))

    def waits(self, column: str) -> bool:
        """Whether nothing was told of the column so far."""
        return column not in self._told


def may_lose(wanted: pa.DataType) -> bool:
    """Whether a text may say more than a value of the type."""
    return bool(
        types.is_timestamp(wanted)
        or types.is_time(wanted)
        or types.is_date(wanted)
        or types.is_decimal(wanted)
        or types.is_floating(wanted)
    )


def lost(texts: pa.Array, wanted: pa.DataType) -> str | None:
    """Return what values of the type do not keep of their texts; None for nothing."""
    if types.is_date(wanted):
        is_longer = (np.diff(texts_content(texts)[0]) > _DAY_CHARS).any()
        return OF_DAY if is_longer and _any(texts, _TIME_OF_DAY) else None
    if types.is_decimal(wanted):
        return DIGITS.format(wanted.scale) if _has_more(texts, wanted.scale) else None
    if types.is_floating(wanted):
        return _of_float(wanted) if _has_more_than_a_float(texts, wanted) else None
    finer = _has_fraction(texts, _UNIT_DIGITS[wanted.unit])
    return FINER.format(_UNITS[wanted.unit]) if finer else None


def _has_more(texts: pa.Array, scale: int) -> bool:
    """Whether a number has digits beyond the scale; one with an exponent is computed."""
    if not (texts_content(texts)[1] | _SMALL == ord("e")).any():
        return _has_fraction(texts, scale)
    exponents = pc.match_substring(texts, "e", ignore_case=True)
    if _has_fraction(texts.filter(pc.invert(exponents)), scale):
        return True
    return any(_is_longer(text, scale) for text in texts.filter(exponents).to_pylist())


def _of_float(wanted: pa.DataType) -> str:
    return OF_FLOAT.format(f"Float{wanted.bit_width}")


def _has_more_than_a_float(texts: pa.Array, wanted: pa.DataType) -> bool:
    """Whether a number has digits that a float does not keep. Most texts are short; of the others,
    programs write most as Arrow does, and these need no look at each."""
    bits = wanted.bit_width
    starts, content = texts_content(texts)
    long = np.diff(starts) > SAFE_DIGITS[bits]
    if (content | _SMALL == ord("e")).any():
        small = pc.match_substring_regex(texts, r"[eE]-[0-9]" + ("{3}" if bits == _DOUBLE else ""))
        long |= pc.fill_null(small, False).to_numpy(zero_copy_only=False)
    some = texts.filter(pa.array(long))
    found = cast_text(some, wanted)
    if bits == _DOUBLE:
        others = pc.not_equal(pc.cast(found, some.type), some)
        some, found = some.filter(others), found.filter(others)
    numbers = found.to_numpy(zero_copy_only=False).tolist()
    return not all(keeps(*each, bits) for each in zip(some.to_pylist(), numbers, strict=True))


def _is_longer(text: str, scale: int) -> bool:
    try:
        digits = Decimal(text.strip()).normalize().as_tuple().exponent
    except InvalidOperation:
        return False
    return isinstance(digits, int) and -digits > scale


def _has_fraction(texts: pa.Array, digits: int) -> bool:
    """Whether a fraction has a digit other than 0 after the first ones. To compare lengths takes a
    fraction of the time of a pattern."""
    starts, content = texts_content(texts)
    points = np.flatnonzero((content == ord(".")) | (content == ord(",")))
    if not len(points):
        return False
    ends = starts[1:] - starts[0]
    ends = ends[np.searchsorted(ends, points, side="right")]
    behind = ends - points - 1 - (content[ends - 1] == ord("Z"))
    return bool((behind > digits).any()) and _any(texts, rf"[.,][0-9]{{{digits}}}[0-9]*[1-9]")


def _has_naive(texts: pa.Array) -> bool:
    """Whether a time names no zone: it ends in a digit, and has no sign where an offset has one."""
    starts, content = texts_content(texts)
    sizes, ends = np.diff(starts), starts[1:] - starts[0]
    ends = ends[sizes > 0]
    last = content[ends - 1]
    naive = (last >= ord("0")) & (last <= ord("9"))
    long = sizes[sizes > 0] > _DAY_CHARS
    for back in _SIGNS:
        sign = content[np.maximum(ends - back, 0)]
        naive &= ~(long & ((sign == ord("+")) | (sign == ord("-"))))
    return bool(naive.any())


def _any(texts: pa.Array, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(texts, pattern)).as_py() is True


Recast = Callable[[pa.Array, pa.DataType], pa.Array]
Matches = Callable[[pa.DataType], bool]
_INT64_DIGITS, _UINT64_DIGITS = 19, 20
_JSON = msgspec.json.Encoder(enc_hook=str)
_FRACTIONS = (
    (r"\.0+$", ""),
    (r"(\.\d{3})(000)+$", r"\1"),
    (r"(\.\d{6})000$", r"\1"),
)
"""Fractions are shortened to 0, 3, 6 or 9 digits."""


def recast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert the values to another type.

    Raises:
        BadValue: the type cannot represent a value.
        pa.ArrowNotImplementedError: there is no conversion between the types.
    """
    if column.type == wanted:
        return column
    try:
        return _recast(column, wanted)
    except (pa.ArrowInvalid, OverflowError, BadValue):
        raise _first_misfit(column, wanted) from None


def can_recast(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether there is a conversion from one type to the other."""
    try:
        recast(pa.array([], found), wanted)
    except pa.ArrowNotImplementedError:
        return False
    return True


def is_naive(kind: pa.DataType) -> bool:
    """Whether values of the type are times without a zone."""
    return bool(types.is_timestamp(kind)) and kind.tz is None


def loss(column: pa.Array, made: pa.Array) -> str | None:
    """Return what a conversion has lost, as a sentence; None for nothing. Nested values are not
    compared."""
    if _is_text(column.type):
        texts = pc.cast(column, pa.string())
        said = [lost(texts, made.type) if may_lose(made.type) else None]
        is_padded = is_number(made.type) and first_padded(texts) is not None
        said.append(PADDED if is_padded else None)
        said.append(NAIVE if types.is_timestamp(made.type) and _has_naive(texts) else None)
        return ", and ".join(each for each in said if each) or None
    for from_type, to_type, is_lossy, sentence in _LOSSES:
        if from_type(column.type) and to_type(made.type):
            return sentence.format(made.type) if is_lossy(column, made) else None
    return None


def _differs_back(column: pa.Array, made: pa.Array) -> bool:
    """Whether the values converted back are others; NaN is one value."""
    back = pc.cast(made, column.type, safe=False)
    differs = pc.not_equal(back, column)
    if pa.types.is_floating(column.type):
        differs = pc.and_(differs, pc.invert(pc.is_nan(column)))
    return pc.any(differs).as_py() is True


def _has_fractions(column: pa.Array, _: pa.Array) -> bool:
    return pc.any(pc.not_equal(pc.trunc(column), column)).as_py() is True


def first_fraction(column: pa.Array, made: pa.Array) -> str | None:
    """Return the first number that a conversion to whole numbers has cut; None if it cut none."""
    if not (_is_fraction(column.type) and pa.types.is_integer(made.type)):
        return None
    at = pc.index(pc.not_equal(pc.trunc(column), column), True).as_py()
    return None if at < 0 else str(column[at].as_py())


def _has_more_digits(column: pa.Array, made: pa.Array) -> bool:
    if made.type.scale >= column.type.scale:
        return False
    return pc.any(pc.not_equal(pc.round(column, made.type.scale), column)).as_py() is True


def _is_no_float(column: pa.Array, made: pa.Array) -> bool:
    return _has_more_than_a_float(pc.cast(column, pa.string()), made.type)


def _are_seconds(column: pa.Array, made: pa.Array) -> bool:
    likely = likely_seconds(made.type.unit)
    inside = pc.and_(pc.greater_equal(column, likely.start), pc.less(column, likely.stop))
    return (bool(likely) and pc.any(inside).as_py() is True) or _are_no_days(column, made)


def _are_no_days(column: pa.Array, _: pa.Array) -> bool:
    return not all(map(are_likely_days, pc.drop_null(pc.unique(column)).to_pylist()))


def _always(_: pa.Array, __: pa.Array) -> bool:
    return True


def _has_time_of_day(column: pa.Array, made: pa.Array) -> bool:
    return _differs_back(pc.cast(column, pa.timestamp(column.type.unit)), made)


def _recast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    for from_type, to_type, change in _RULES:
        if from_type(column.type) and to_type(wanted):
            return change(column, wanted)
    if pa.types.is_nested(column.type) or pa.types.is_nested(wanted):
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), wanted)
        raise pa.ArrowNotImplementedError(f"{column.type} is no {wanted}")
    return pc.cast(column, wanted)


def _first_misfit(column: pa.Array, wanted: pa.DataType) -> BadValue:
    for at in range(len(column)):
        try:
            _recast(column.slice(at, 1), wanted)
        except (pa.ArrowInvalid, OverflowError, BadValue):
            return BadValue(at, column[at].as_py())
    return BadValue(0, None)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _from_text(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return cast_text(pc.cast(column, pa.string()), wanted)


def _float_to_text(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    return pa.array(map(_shown, values), wanted, mask=_nulls(column))


def _nested_to_text(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Write values as JSON, in the texts of answers."""
    told = (None if each is None else _JSON.encode(each).decode() for each in values(column))
    return pa.array(told, wanted)


def _nulls(column: pa.Array) -> np.ndarray:
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), bool)


def _shown(value: np.floating) -> str:
    """Return the shortest digits, always with a point or an exponent."""
    if np.isnan(value):
        return "NaN"
    text = str(value)
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def _moment_to_text(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    zone = column.type.tz
    utc = column if zone is None else pc.cast(column, pa.timestamp(column.type.unit, "UTC"))
    text = pc.strftime(utc, format="%Y-%m-%dT%H:%M:%S")
    text = _short(text)
    return pc.cast(text if zone is None else pc.binary_join_element_wise(text, "Z", ""), wanted)


def _time_to_text(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.cast(_short(pc.cast(column, pa.string())), wanted)


def _short(text: pa.Array) -> pa.Array:
    for pattern, instead in _FRACTIONS:
        text = pc.replace_substring_regex(text, pattern, instead)
    return text


def _moment(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Change the unit, cutting digits; a time without a zone is in UTC."""
    unit = column.type.unit
    counts = pc.cast(column, pa.int64())
    utc = pc.cast(counts, pa.timestamp(unit, "UTC"))
    finer = ("s", "ms", "us", "ns")
    if finer.index(wanted.unit) < finer.index(unit):
        units = {"s": "second", "ms": "millisecond", "us": "microsecond"}
        utc = pc.floor_temporal(utc, unit=units[wanted.unit])
    utc = pc.cast(utc, pa.timestamp(wanted.unit, "UTC"))
    return pc.cast(pc.cast(utc, pa.int64()), wanted)


def _via(between: pa.DataType) -> Recast:
    return lambda column, wanted: pc.cast(pc.cast(column, between), wanted)


def _whole(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.cast(pc.trunc(column), wanted)


def _inexact(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Change numbers to the nearest floats. Raises `ArrowInvalid` for one that becomes infinite."""
    made = pc.cast(column, wanted, safe=False)
    infinite = pc.is_inf(pc.cast(made, pa.float64()))
    if pa.types.is_floating(column.type):
        infinite = pc.and_(infinite, pc.is_finite(pc.cast(column, pa.float64())))
    if pc.any(infinite).as_py():
        raise pa.ArrowInvalid("too large")
    return made


def _truth(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Change 0 and 1 to truth values. Raises `ArrowInvalid` for any other number."""
    made = pc.cast(column, wanted)
    if pc.any(pc.not_equal(pc.cast(pc.cast(made, pa.int8()), column.type), column)).as_py():
        raise pa.ArrowInvalid("neither 0 nor 1")
    return made


def _int_to_decimal(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    digits = _UINT64_DIGITS if pa.types.is_uint64(column.type) else _INT64_DIGITS
    wide = pa.int64() if digits == _INT64_DIGITS else pa.uint64()
    return pc.cast(pc.cast(pc.cast(column, wide), pa.decimal128(digits, 0)), wanted)


def _decimal(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Change the scale, rounding the last digit kept."""
    if wanted.scale < column.type.scale:
        column = pc.round(column, wanted.scale, round_mode="half_towards_infinity")
    return pc.cast(column, wanted)


def _list(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    items = recast(column.flatten(), wanted.value_type)
    if not wanted.value_field.nullable and items.null_count:
        raise pa.ArrowInvalid("no value in a required element")
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    large = pa.types.is_large_list(wanted)
    offsets = pa.array(starts, pa.int64() if large else pa.int32())
    kind = pa.LargeListArray if large else pa.ListArray
    mask = pc.is_null(column) if column.null_count else None
    return kind.from_arrays(offsets, items, type=wanted, mask=mask)


def _struct(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Match members by name; a missing member is null."""
    members = [wanted.field(at) for at in range(wanted.num_fields)]
    found = {column.type.field(at).name: at for at in range(column.type.num_fields)}
    parts = []
    for member in members:
        if member.name not in found and not member.nullable:
            raise pa.ArrowNotImplementedError(f"no member {member.name}")
        part = (
            recast(pc.struct_field(column, [found[member.name]]), member.type)
            if member.name in found
            else pa.nulls(len(column), member.type)
        )
        if not member.nullable and part.null_count > column.null_count:
            raise pa.ArrowInvalid("no value in a required member")
        parts.append(part)
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=members, mask=mask)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


_RULES: tuple[tuple[Matches, Matches, Recast], ...] = (
    (_is_text, lambda t: has_text_form(t) and not _is_text(t), _from_text),
    (pa.types.is_floating, _is_text, _float_to_text),
    (pa.types.is_timestamp, _is_text, _moment_to_text),
    (pa.types.is_time, _is_text, _time_to_text),
    (pa.types.is_nested, _is_text, _nested_to_text),
    (pa.types.is_timestamp, pa.types.is_timestamp, _moment),
    (pa.types.is_integer, pa.types.is_timestamp, _via(pa.int64())),
    (pa.types.is_integer, pa.types.is_date, _via(pa.int32())),
    (pa.types.is_date32, pa.types.is_integer, _via(pa.int32())),
    (_is_number, pa.types.is_floating, _inexact),
    (pa.types.is_decimal, pa.types.is_floating, _inexact),
    (_is_number, pa.types.is_boolean, _truth),
    (pa.types.is_integer, pa.types.is_decimal, _int_to_decimal),
    (pa.types.is_floating, pa.types.is_integer, _whole),
    (pa.types.is_decimal, pa.types.is_integer, _whole),
    (pa.types.is_decimal, pa.types.is_decimal, _decimal),
    (_is_list, _is_list, _list),
    (pa.types.is_struct, pa.types.is_struct, _struct),
)
"""The first matching rule applies; otherwise Arrow's cast, which refuses a loss."""


def _is_fraction(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


Lossy = Callable[[pa.Array, pa.Array], bool]
_OF_JANUARY = (
    "numbers are taken for counts of the unit, and are times of January 1970, to be {}: write "
    "seconds as times"
)
BARE = (
    "durations are stored as bare counts of {}, and the column does not say so: another program, "
    "or another version of it, may count in another unit"
)
_LOSSES: tuple[tuple[Matches, Matches, Lossy, str], ...] = (
    (_is_fraction, pa.types.is_integer, _has_fractions, "fractions are cut off, to be {}"),
    (_is_number, pa.types.is_floating, _differs_back, "numbers lose digits, to be {}"),
    (pa.types.is_decimal, pa.types.is_decimal, _has_more_digits, "digits are rounded, to be {}"),
    (pa.types.is_floating, pa.types.is_decimal, _differs_back, "digits are rounded, to be {}"),
    (pa.types.is_decimal, pa.types.is_floating, _is_no_float, "numbers lose digits, to be {}"),
    *(
        (lambda kind, unit=unit: kind == pa.duration(unit), to_type, _always, BARE.format(words))
        for unit, words in _UNITS.items()
        for to_type in (pa.types.is_integer, _is_text)
    ),
    (pa.types.is_temporal, pa.types.is_integer, _always, "times are stored as bare counts"),
    (pa.types.is_integer, pa.types.is_date, _are_no_days, f"numbers are {NO_DAYS}"),
    (pa.types.is_integer, pa.types.is_timestamp, _are_seconds, _OF_JANUARY),
    (
        pa.types.is_timestamp,
        pa.types.is_timestamp,
        _differs_back,
        "times lose their last digits, to be {}",
    ),
    (pa.types.is_time, pa.types.is_time, _differs_back, "times lose their last digits, to be {}"),
    (pa.types.is_timestamp, pa.types.is_date, _has_time_of_day, "times of day are cut off"),
)
"""Conversions that take values they change."""
