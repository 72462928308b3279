"""Compute the next time of a schedule: by a cron expression in a time zone, or by an interval.

At changes of the clock it follows the rules of Debian's cron. Expressions with a fixed minute and
hour follow the local clock: a skipped time runs right after the change, and a repeated time runs
once. Expressions whose minute or hour begins with `*` follow the time that passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from odf_protocol.errors import BadInput
from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.ports.values import Schedule

MIN_EVERY_S = 1
MAX_EVERY_S = 366 * 86_400
MAX_CRON_CHARS = 200


class InvalidSchedule(BadInput):
    """The times of a schedule are invalid."""


def next_time(schedule: Schedule, after: Instant) -> Instant | None:
    """Return the first time after `after`; None if there is none."""
    if schedule.every_s is not None:
        return _next_beat(schedule.created_at, schedule.every_s, after)
    zone = ZoneInfo(schedule.time_zone)
    began = datetime.fromtimestamp(after.ns // NANOS, tz=UTC).astimezone(zone)
    times = (
        Instant(int(found.timestamp()) * NANOS) for found in _times(schedule.cron or "", began)
    )
    return next((time for time in times if time > after), None)


def _times(cron: str, began: datetime) -> Iterator[datetime]:
    """Yield the times from `began` on. Where the clock goes back, earlier ones may come first."""
    *_, minute, hour, _day, _month, _weekday = cron.split()
    if minute.startswith("*") or hour.startswith("*"):
        yield from CronSim(cron, began)
        return
    for found in CronSim(cron, began.replace(tzinfo=None, fold=0)):
        yield _existing(found.replace(tzinfo=began.tzinfo))


def _existing(time: datetime) -> datetime:
    """Return the time, or if the clock skips it, one right after the change."""
    while time.astimezone(UTC).astimezone(time.tzinfo) != time:
        time += timedelta(minutes=1)
    return time


def check_times(cron: str | None, every_s: int | None, time_zone: str) -> None:
    """Check the times of a schedule.

    Raises:
        InvalidSchedule: both or none are given, the interval is out of range, the time zone is
            unknown, or the expression is malformed or has no future time.
    """
    if (cron is None) == (every_s is None):
        raise InvalidSchedule("a schedule has either `cron` or `everySeconds`")
    if every_s is not None and not MIN_EVERY_S <= every_s <= MAX_EVERY_S:
        raise InvalidSchedule(f"everySeconds is from {MIN_EVERY_S} to {MAX_EVERY_S}")
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidSchedule(
            f"there is no time zone {time_zone[:50]!r}; names are those of IANA, such as "
            "Europe/Berlin"
        ) from None
    if cron is not None:
        _check_cron(cron, zone)


def _check_cron(cron: str, zone: ZoneInfo) -> None:
    if len(cron) > MAX_CRON_CHARS or len(cron.split()) not in (5, 6):
        raise InvalidSchedule("a cron expression has five fields, or six with seconds")
    try:
        following = next(CronSim(cron, datetime.now(zone)), None)
    except CronSimError as bad:
        raise InvalidSchedule(f"the cron expression cannot be read: {bad}") from None
    if following is None or following - datetime.now(zone) > timedelta(days=366 * 50):
        raise InvalidSchedule("the cron expression names no time to come")


def _next_beat(start: Instant, every_s: int, after: Instant) -> Instant:
    """Return the next time, counted from the schedule's creation so that times do not drift."""
    every = every_s * NANOS
    passed = max(0, after.ns - start.ns) // every
    return Instant(start.ns + (passed + 1) * every)
