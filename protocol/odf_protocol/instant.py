"""UTC instants with nanoseconds, as in block timestamps; `datetime` has only microseconds.

Text is RFC 3339. It is written with `Z` and 0, 3, 6 or 9 fraction digits, the fewest that are
exact. It is read with any offset, and with `T`, `t` or a blank between date and time.
Source: ODF "Common types: date-time".
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, total_ordering

from .errors import BadInput

NANOS = 1_000_000_000
DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)",
    re.ASCII,
)


class MalformedInstant(BadInput):
    """The text or fields are not an instant between the years 1 and 9999."""


@total_ordering
class Instant:
    """Nanoseconds since 1970-01-01T00:00:00Z, in the years 1 to 9999."""

    __slots__ = ("ns",)
    ns: int

    def __init__(self, ns: int) -> None:
        if not _MIN <= ns <= _MAX:
            raise MalformedInstant(f"instant outside of the years 1 to 9999: {ns} ns")
        object.__setattr__(self, "ns", ns)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an Instant does not change")

    def __reduce__(self) -> tuple[type[Instant], tuple[int]]:
        return Instant, (self.ns,)

    @classmethod
    def parse(cls, text: str) -> Instant:
        """Parse RFC 3339 text; text without an offset and a date alone are refused.

        Raises:
            MalformedInstant: the text has another form.
        """
        match = _RFC3339.fullmatch(text)
        if match is None:
            raise MalformedInstant(f"not an RFC 3339 date-time with offset: {text[:64]!r}")
        year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
        if hour > 23 or minute > 59 or second > 59:
            raise MalformedInstant(f"no such time of day: {text!r}")
        try:
            days = (date(year, month, day) - _EPOCH).days
        except ValueError:
            raise MalformedInstant(f"no such date: {text!r}") from None
        nanos = int((match[7] or "").ljust(9, "0"))
        seconds = days * DAY_SECONDS + hour * 3600 + minute * 60 + second
        return cls((seconds - _offset_seconds(match[8], text)) * NANOS + nanos)

    @classmethod
    def from_fields(cls, year: int, ordinal: int, seconds: int, nanos: int) -> Instant:
        """Build from a wire struct: year, day of year from 1, seconds of the day, nanoseconds."""
        if not 1 <= year <= 9999 or not 0 <= seconds < DAY_SECONDS or not 0 <= nanos < NANOS:
            raise MalformedInstant(f"timestamp fields out of range: {year}, {seconds}, {nanos}")
        first, length = _year(year)
        if not 1 <= ordinal <= length:
            raise MalformedInstant(f"year {year} has no day {ordinal}")
        instant = _new(Instant)  # skips the range check, because the year is in range
        _set_ns(instant, ((first + ordinal - 1) * DAY_SECONDS + seconds) * NANOS + nanos)
        return instant

    @classmethod
    def from_millis(cls, millis: int) -> Instant:
        return cls(millis * 1_000_000)

    @classmethod
    def from_datetime(cls, when: datetime) -> Instant:
        """Convert an aware `datetime`, including its microseconds."""
        if when.tzinfo is None:
            raise MalformedInstant("a datetime without zone is no instant")
        delta = when - datetime(1970, 1, 1, tzinfo=UTC)
        return cls((delta.days * DAY_SECONDS + delta.seconds) * NANOS + delta.microseconds * 1000)

    def fields(self) -> tuple[int, int, int, int]:
        """Return year, day of year from 1, seconds from midnight, nanoseconds."""
        seconds, nanos = divmod(self.ns, NANOS)
        days, second = divmod(seconds, DAY_SECONDS)
        day = _EPOCH + timedelta(days=days)
        return day.year, day.timetuple().tm_yday, second, nanos

    @property
    def millis(self) -> int:
        """Whole milliseconds since 1970, rounded down."""
        return self.ns // 1_000_000

    def floor_millis(self) -> Instant:
        """Return the instant rounded down to whole milliseconds."""
        return Instant.from_millis(self.millis)

    def to_datetime(self) -> datetime:
        """Return an aware `datetime`, rounded down to whole microseconds."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.ns // 1000)

    def __str__(self) -> str:
        seconds, nanos = divmod(self.ns, NANOS)
        days, second = divmod(seconds, DAY_SECONDS)
        day = _EPOCH + timedelta(days=days)
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        return f"{day.year:04}-{day.month:02}-{day.day:02}T{clock}{_fraction(nanos)}Z"

    def __repr__(self) -> str:
        return f"Instant({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instant):
            return NotImplemented
        return self.ns == other.ns

    def __lt__(self, other: Instant) -> bool:
        return self.ns < other.ns

    def __hash__(self) -> int:
        return hash(self.ns)


_new = object.__new__
_set_ns = vars(Instant)["ns"].__set__
_MIN = (date(1, 1, 1) - _EPOCH).days * DAY_SECONDS * NANOS
_MAX = ((date(9999, 12, 31) - _EPOCH).days + 1) * DAY_SECONDS * NANOS - 1


@lru_cache(maxsize=512)
def _year(year: int) -> tuple[int, int]:
    """Return the days from 1970 to the first day of the year, and the length of the year."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (date(year, 1, 1) - _EPOCH).days, 366 if leap else 365


def _offset_seconds(text: str, whole: str) -> int:
    if text in "Zz":
        return 0
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > 23 or minutes > 59:
        raise MalformedInstant(f"no such offset: {whole!r}")
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def _fraction(nanos: int) -> str:
    if nanos == 0:
        return ""
    for digits, unit in ((3, 1_000_000), (6, 1_000)):
        if nanos % unit == 0:
            return f".{nanos // unit:0{digits}}"
    return f".{nanos:09}"


def day_or_instant(text: str) -> Instant:
    """Parse a user's text for an instant: RFC 3339, or a date, which means its midnight in UTC.

    Raises:
        MalformedInstant.
    """
    text = text.strip()
    if _DAY.fullmatch(text):
        return Instant.parse(f"{text}T00:00:00Z")
    try:
        return Instant.parse(text)
    except MalformedInstant as bad:
        raise MalformedInstant(
            f"{bad.message} (write 2026-11-23T10:00:00Z, or 2026-11-23 for its midnight in UTC)"
        ) from None
