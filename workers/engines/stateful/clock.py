"""How far event time has come, per column: what watermarks of inputs promise about rows to come.

A clock maps the inputs' watermarks to the least value a column can have in rows not yet seen
(microseconds since 1970; None: nothing is promised). It only moves forward when they do. A group
of rows by the value of such a column is final once its clock is past that value: for the start of
a window this is exactly when the watermark reaches the window's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

Moments = Mapping[str, int | None]
"""Watermark of each input."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
DAY = 86_400 * SECOND
FIXED_UNITS: Mapping[str, tuple[int, int]] = {
    "MICROSECOND": (1, 0),
    "MILLISECOND": (1_000, 0),
    "SECOND": (SECOND, 0),
    "MINUTE": (60 * SECOND, 0),
    "HOUR": (3_600 * SECOND, 0),
    "DAY": (DAY, 0),
    "DD": (DAY, 0),
    # Weeks begin on Monday; 1970 began on a Thursday.
    "WEEK": (7 * DAY, 4 * DAY),
}
"""Length and beginning of units that are always as long."""
MONTHS: Mapping[str, int] = {
    "MONTH": 1,
    "MM": 1,
    "MON": 1,
    "QUARTER": 3,
    "YEAR": 12,
    "YYYY": 12,
    "YY": 12,
}
"""Months of the units of the calendar."""


class Clock(Protocol):
    """Equal clocks are equal values."""

    def at(self, moments: Moments) -> int | None: ...


@dataclass(frozen=True, slots=True)
class InputClock:
    """The event time of an input."""

    alias: str

    def at(self, moments: Moments) -> int | None:
        return moments[self.alias]


@dataclass(frozen=True, slots=True)
class Later:
    """A column some time after another (or before, if negative)."""

    clock: Clock
    by: int

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        return None if at is None else at + self.by


@dataclass(frozen=True, slots=True)
class Least:
    """A column that is fed by several."""

    clocks: tuple[Clock, ...]

    def at(self, moments: Moments) -> int | None:
        ats = [clock.at(moments) for clock in self.clocks]
        known = [at for at in ats if at is not None]
        return min(known) if known and len(known) == len(ats) else None


@dataclass(frozen=True, slots=True)
class WindowStart:
    """The start of windows of a column: that of the first window still open."""

    clock: Clock
    size: int
    slide: int
    origin: int = 0

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        if at is None:
            return None
        steps = (at - self.size - self.origin) // self.slide
        return self.origin + (steps + 1) * self.slide


@dataclass(frozen=True, slots=True)
class CalendarStart:
    """The first instant of a column's month, quarter or year."""

    clock: Clock
    months: int

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        if at is None:
            return None
        moment = EPOCH + timedelta(microseconds=at)
        month = (moment.month - 1) // self.months * self.months + 1
        start = datetime(moment.year, month, 1, tzinfo=UTC)
        return (start - EPOCH) // timedelta(microseconds=1)


def truncated(clock: Clock, unit: str) -> Clock | None:
    """The clock of `date_trunc(unit, column)`; None for a unit that does not exist."""
    unit = unit.upper()
    if unit in FIXED_UNITS:
        length, origin = FIXED_UNITS[unit]
        return WindowStart(clock, length, length, origin)
    return CalendarStart(clock, MONTHS[unit]) if unit in MONTHS else None


def back(moments: Moments, by: int) -> dict[str, int | None]:
    """All watermarks some time earlier."""
    return {alias: None if at is None else at - by for alias, at in moments.items()}
