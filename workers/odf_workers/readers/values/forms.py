"""How a source writes dates, times and numbers, and which words stand for no value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odf_protocol.columns.arrow_schema import UnsupportedSchema, from_arrow
from odf_protocol.metadata.schema import bare_type
from odf_protocol.metadata.sources import ReadStep
from odf_protocol.sources.source_options import (
    DEFAULTS,
    GROUP_SIGNS,
    ColumnOptions,
    EpochUnit,
    options_of,
)
from odf_protocol.sources.time_patterns import UNCLEAR_ZONE, TimePattern, pattern_of

from .text import UNIT_NANOS, BadValue, local_time, parse_one, with_zone

_COUNT = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_MOST_NANOS = 10**21
"""Limit of counts in any unit: in nanoseconds it is beyond the year 9999."""
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Forms:
    """Patterns of date columns and of time columns (None means ISO 8601), and the options of the
    source for numbers, zones and words of null."""

    date: TimePattern | None = None
    timestamp: TimePattern | None = None
    decimal: str = "."
    thousands: str | None = None
    zone: str | None = None
    epoch: EpochUnit | None = None
    null_words: frozenset[str] = _NOTHING
    columns: Mapping[str, ColumnOptions] = field(default_factory=dict)

    @property
    def has_patterns(self) -> bool:
        return self.date is not None or self.timestamp is not None

    def __bool__(self) -> bool:
        """Whether texts are written in another form than the default."""
        return self != PLAIN

    def pattern(self, wanted: pa.DataType) -> TimePattern | None:
        if types.is_date(wanted):
            return self.date
        return self.timestamp if types.is_timestamp(wanted) else None

    def words(self, column: str, wanted: pa.DataType) -> frozenset[str]:
        """Return the words that stand for no value in a column."""
        own = self.columns.get(column)
        if own is not None and own.null_words:
            return own.null_words
        return _NOTHING if _is_text(wanted) else self.null_words

    def epoch_of(self, column: str) -> EpochUnit | None:
        """Return the unit of numbers in a column of times, if it is declared."""
        own = self.columns.get(column)
        return self.epoch if own is None or own.epoch is None else own.epoch

    def plain(self, texts: pa.Array, column: str, wanted: pa.DataType) -> pa.Array:
        """Return the texts of a column in the form that `cast_text` takes, nulls for words of null.
        Raises `BadValue`."""
        if words := self.words(column, wanted):
            is_word = pc.is_in(texts, value_set=pa.array(sorted(words), texts.type))
            texts = pc.if_else(is_word, pa.scalar(None, texts.type), texts)
        if not self._rewrites(column, wanted):
            return texts
        if types.is_timestamp(wanted) and self.timestamp is None and self.epoch_of(column) is None:
            quick = with_zone(texts, str(self.zone))
            if quick is not None:
                return quick
        known: dict[str | None, str | None] = {None: None}
        values = texts.to_pylist()
        for index, text in enumerate(values):
            if text not in known:
                try:
                    known[text] = self._rewritten(text, column, wanted)
                except (ValueError, OverflowError, ArithmeticError):
                    raise BadValue(index, text) from None
        return pa.array([known[text] for text in values], pa.string())

    def plain_one(self, text: str, column: str, wanted: pa.DataType) -> str | None:
        """Return one text as `plain` does. Raises `ValueError`."""
        if text in self.words(column, wanted):
            return None
        return self._rewritten(text, column, wanted) if self._rewrites(column, wanted) else text

    def kind(self, text: str) -> str | None:
        """Return the type of a text according to the patterns, for inference; None if neither
        fits."""
        for name, pattern in (("date", self.date), ("ms", self.timestamp)):
            try:
                if pattern is not None and pattern.read(text):
                    return name
            except (ValueError, OverflowError):
                continue
        return None

    def _rewrites(self, column: str, wanted: pa.DataType) -> bool:
        if is_number(wanted):
            return self.decimal != "." or self.thousands is not None
        if types.is_timestamp(wanted):
            return bool(self.timestamp or self.zone or self.epoch_of(column))
        return types.is_date(wanted) and self.date is not None

    def _rewritten(self, text: str, column: str, wanted: pa.DataType) -> str:
        if is_number(wanted):
            return _plain_number(text, self.decimal, self.thousands)
        if (
            (unit := self.epoch_of(column))
            and types.is_timestamp(wanted)
            and _COUNT.fullmatch(text)
        ):
            return of_epoch(Decimal(text), unit)
        if (pattern := self.pattern(wanted)) is not None:
            if types.is_date(wanted):
                return pattern.read_day(text).isoformat()
            return pattern.read(text, self.zone).isoformat()
        return text if self.zone is None else _zoned(text, self.zone)


PLAIN = Forms()


def forms_of(step: ReadStep) -> Forms:
    """Return the forms that a read step declares. Raises `UnsupportedPattern`,
    `UnknownSourceOption`."""
    options = DEFAULTS if step.schema is None else options_of(step)
    return Forms(
        date=pattern_of(getattr(step, "date_format", None)),
        timestamp=pattern_of(getattr(step, "timestamp_format", None)),
        decimal=options.decimal,
        thousands=options.thousands,
        zone=options.time_zone,
        epoch=options.epoch,
        null_words=options.null_words,
        columns=options.columns,
    )


def _is_text(wanted: pa.DataType) -> bool:
    return bool(types.is_string(wanted) or types.is_large_string(wanted))


def is_number(wanted: pa.DataType) -> bool:
    return bool(types.is_integer(wanted) or types.is_floating(wanted) or types.is_decimal(wanted))


@lru_cache(32)
def _number_pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """Return the form of numbers: groups have three digits, or, before the last one, two, as in
    India."""
    whole = r"\d+"
    if thousands is not None:
        sign = f"[{re.escape(GROUP_SIGNS.get(thousands, thousands))}]"
        whole = rf"(?:\d{{1,3}}(?:{sign}\d{{3}})+|\d{{1,2}}(?:{sign}\d{{2}})+{sign}\d{{3}}|\d+)"
    fraction = rf"(?:{re.escape(decimal)}(\d*))?"
    return re.compile(rf"([+-]?)({whole}?){fraction}([eE][+-]?\d+)?", re.ASCII)


def _plain_number(text: str, decimal: str, thousands: str | None) -> str:
    """Return a number with a decimal point and without other signs. Raises `ValueError`."""
    match = _number_pattern(decimal, thousands).fullmatch(text.strip())
    if match is None:
        if text.strip().lstrip("+-").lower() in ("nan", "inf", "infinity"):
            return text
        raise ValueError("not a number of this form")
    sign, whole, fraction, exponent = match.groups()
    digits = "".join(one for one in whole if one.isdigit())
    return f"{sign}{digits}" + ("" if fraction is None else f".{fraction}") + (exponent or "")


def of_epoch(count: Decimal, unit: EpochUnit) -> str:
    """Return the time of a count since 1970. Raises `ValueError` outside of the years 1 to 9999."""
    if not abs(count) < _MOST_NANOS:
        raise ValueError("outside of the years 1 to 9999")
    seconds, nanos = divmod(int(count * UNIT_NANOS[unit]), UNIT_NANOS["s"])
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("outside of the years 1 to 9999") from None
    return f"{moment.isoformat()}.{nanos:09}Z"


def _zoned(text: str, zone: str) -> str:
    """Return a time with the zone of the source, unless it names one."""
    local = local_time(text)
    if local is None:
        return text
    return f"{local} {zone}" if zone[0].isalpha() else f"{local}{zone}"


def not_of(
    wanted: pa.DataType, forms: Forms = PLAIN, *, column: str = "", value: object = None
) -> str:
    """Return the reason why a value does not fit a column: the type, its format, and what to do."""
    name = type_name(wanted)
    if types.is_timestamp(wanted) and (why := _unclear_zone(wanted, forms, column, value)):
        return f"not a value of type {name} ({why})"
    if types.is_timestamp(wanted) and (unit := forms.epoch_of(column)) is not None:
        return f"not a value of type {name} (a count of {unit} since 1970, or a time)"
    has_signs = forms.decimal != "." or forms.thousands is not None
    has_digits = type(value) is str and any(map(str.isdigit, value))
    if is_number(wanted) and (has_signs or has_digits):
        return (
            f"not a value of type {name} (written as {_number_of(wanted, forms)}; in texts "
            "odf-node/decimal and odf-node/thousands take other signs, and a column of type String "
            "takes any text, such as one with % or $)"
        )
    if (pattern := forms.pattern(wanted)) is not None:
        return f"not a value of type {name} (written as {pattern.text})"
    if types.is_date(wanted):
        return f"not a value of type {name} (written as 2000-01-31; dateFormat takes other forms)"
    if types.is_timestamp(wanted):
        return (
            f"not a value of type {name} (written as 2000-01-31T23:59:59Z; timestampFormat takes "
            "other forms)"
        )
    return f"not a value of type {name}"


def _unclear_zone(wanted: pa.DataType, forms: Forms, column: str, value: object) -> str | None:
    """Return why a time that is one but for its zone is no value; None for other values."""
    try:
        if isinstance(value, str) and (plain := forms.plain_one(value, column, wanted)):
            parse_one(plain, wanted)
    except (ValueError, OverflowError, ArithmeticError) as bad:
        return str(bad) if any(reason in str(bad) for reason in UNCLEAR_ZONE) else None
    return None


def _number_of(wanted: pa.DataType, forms: Forms) -> str:
    """Return a number as a source writes those of a type."""
    fraction = "" if types.is_integer(wanted) else f"{forms.decimal}5"
    groups = "" if forms.thousands is None else f"1{forms.thousands}000 or "
    return f"{groups}1000{fraction}"


def type_name(wanted: pa.DataType) -> str:
    """Return the name of the type in manifests."""
    try:
        named = from_arrow(pa.schema([pa.field("x", wanted)])).fields[0].type
    except UnsupportedSchema:
        return str(wanted)
    name = str(type(bare_type(named)).__struct_config__.tag)
    if types.is_decimal(wanted):
        return f"{name}({wanted.precision}, {wanted.scale})"
    return name
