"""Clocks: what the watermarks of inputs promise about the time columns of future rows.

A clock maps the inputs' watermarks to the least value that a column can have in rows not yet seen
(microseconds since 1970; None: nothing is promised). It moves only when they do, and only forward.
A group of rows by the value of such a column is final once its clock is past that value: for the
start of a window, this is exactly when the watermark reaches the window's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

Moments = Mapping[str, int | None]
"""Watermark of each input, by alias, in microseconds."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
DAY = 86_400 * SECOND
CALENDAR_CYCLE = 146_097 * DAY
"""Length of 400 years, after which the calendar repeats. A shifted watermark may be in a year that
`datetime` does not have, but its month is that of a year in another cycle."""
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
"""Length and origin, in microseconds, of units of fixed length."""
MONTHS: Mapping[str, int] = {
    "MONTH": 1,
    "MM": 1,
    "MON": 1,
    "QUARTER": 3,
    "YEAR": 12,
    "YYYY": 12,
    "YY": 12,
}
"""Number of months in each calendar unit."""


class Clock(Protocol):
    """A clock of one column. Clocks compare by value."""

    def at(self, moments: Moments) -> int | None: ...


@dataclass(frozen=True, slots=True)
class InputClock:
    """Clock of the event time of an input."""

    alias: str

    def at(self, moments: Moments) -> int | None:
        return moments[self.alias]


@dataclass(frozen=True, slots=True)
class Later:
    """Clock of a column that is later than another by a fixed time (earlier, if negative)."""

    clock: Clock
    by: int

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        return None if at is None else at + self.by


@dataclass(frozen=True, slots=True)
class Least:
    """Clock of a column whose values come from several others."""

    clocks: tuple[Clock, ...]

    def at(self, moments: Moments) -> int | None:
        ats = [clock.at(moments) for clock in self.clocks]
        known = [at for at in ats if at is not None]
        return min(known) if known and len(known) == len(ats) else None


@dataclass(frozen=True, slots=True)
class WindowStart:
    """Clock of the start of a column's windows: the start of the first window that is open."""

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
    """Clock of the first instant of a column's month, quarter or year."""

    clock: Clock
    months: int

    def at(self, moments: Moments) -> int | None:
        at = self.clock.at(moments)
        if at is None:
            return None
        cycles, within = divmod(at, CALENDAR_CYCLE)
        moment = EPOCH + timedelta(microseconds=within)
        month = (moment.month - 1) // self.months * self.months + 1
        start = datetime(moment.year, month, 1, tzinfo=UTC)
        return cycles * CALENDAR_CYCLE + (start - EPOCH) // timedelta(microseconds=1)


def truncated(clock: Clock, unit: str) -> Clock | None:
    """Return the clock of `date_trunc(unit, column)`; None for an unknown unit."""
    unit = unit.upper()
    if unit in FIXED_UNITS:
        length, origin = FIXED_UNITS[unit]
        return WindowStart(clock, length, length, origin)
    return CalendarStart(clock, MONTHS[unit]) if unit in MONTHS else None


def back(moments: Moments, by: int) -> dict[str, int | None]:
    """Return all watermarks, each earlier by the given time."""
    return {alias: None if at is None else at - by for alias, at in moments.items()}
