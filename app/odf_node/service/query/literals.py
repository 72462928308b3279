"""Values in conditions of people and programs, checked and written as SQL of the node's engine.

The engine has its own words for a day that no calendar has, and finds rows for a time that its
finest unit does not reach. Here a text is a time of the years 1 to 9999, or a number that the
engine has, or it is refused.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import NamedTuple

from odf_protocol.sql_text import quoted_text

_MICROS = 'Timestamp(us, "UTC")'
_NANOS = 'Timestamp(ns, "UTC")'
_NANO_YEARS = range(1678, 2262)
"""Years that nanoseconds since 1970 reach in 64 bits."""
_FRACTION = re.compile(r"\.(\d+)", re.ASCII)
_MICRO_DIGITS, _NANO_DIGITS = 6, 9
MOST_DIGITS = 38
"""Digits of the longest decimals."""
_BIGINT = range(-(2**63), 2**63)
_NUMBER = re.compile(r"[+-]?(\d{1,100})(?:\.(\d{0,100}))?", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?(?:e[+-]?\d{1,4})?|inf|infinity|nan)", re.ASCII
)
_TRUE, _FALSE = frozenset({"true", "t", "yes", "1"}), frozenset({"false", "f", "no", "0"})


class MomentSql(NamedTuple):
    """A moment in SQL. `far` is -1 before and 1 behind all times that nanoseconds reach, else 0: a
    column of nanoseconds is compared with such a one as with nothing."""

    sql: str
    far: int


def moment_sql(text: str) -> MomentSql:
    """Return the SQL of a moment; one without a zone is in UTC. Raises `ValueError`."""
    fraction = _FRACTION.search(text)
    digits = "" if fraction is None else fraction[1].rstrip("0")
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:50]!r} is no time of the years 1 to 9999") from None
    far = (moment.year >= _NANO_YEARS.stop) - (moment.year < _NANO_YEARS.start)
    if len(digits) <= _MICRO_DIGITS:
        plain = moment.replace(tzinfo=None).isoformat()
        return MomentSql(f"arrow_cast({quoted_text(plain + 'Z')}, {quoted_text(_MICROS)})", far)
    if far or len(digits) > _NANO_DIGITS:
        raise ValueError(f"{text[:50]!r} has more digits than times of its year have here")
    whole = moment.replace(tzinfo=None, microsecond=0).isoformat()
    return MomentSql(f"arrow_cast({quoted_text(f'{whole}.{digits}Z')}, {quoted_text(_NANOS)})", far)


def day_sql(text: str) -> str:
    """Return the SQL of a day. Raises `ValueError`."""
    try:
        return f"CAST({quoted_text(date.fromisoformat(text).isoformat())} AS DATE)"
    except ValueError:
        raise ValueError(f"{text[:50]!r} is no day of the years 1 to 9999") from None


def clock_sql(text: str) -> str:
    """Return the SQL of a time of day. Raises `ValueError`."""
    try:
        time.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:50]!r} is no time of a day") from None
    return f"CAST({quoted_text(text)} AS TIME)"


def exact_sql(text: str) -> str:
    """Return the SQL of a number with all its digits. Raises `ValueError`."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:50]!r} is no number in digits")
    scale = len(match[2] or "")
    if len(match[1]) + scale > MOST_DIGITS:
        raise ValueError(f"a number has {MOST_DIGITS} digits at most")
    if not scale and int(match[0].rstrip(".")) in _BIGINT:
        return f"CAST({quoted_text(match[0].rstrip('.'))} AS BIGINT)"
    return f"CAST({quoted_text(match[0])} AS DECIMAL({MOST_DIGITS}, {scale}))"


def float_sql(text: str) -> str:
    """Return the SQL of a float. Raises `ValueError`."""
    if _FLOAT.fullmatch(text.lower()) is None:
        raise ValueError(f"{text[:50]!r} is no number")
    return f"CAST({quoted_text(text.lower())} AS DOUBLE)"


def bool_sql(text: str) -> str:
    """Return the SQL of a truth value. Raises `ValueError`."""
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(f"{text[:50]!r} is neither true nor false")
    return "TRUE" if text.lower() in _TRUE else "FALSE"
