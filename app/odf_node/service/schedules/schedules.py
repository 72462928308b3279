"""Schedules of dataset refreshes: add, change, pause and remove them, and start due ones once.

Compute the next time of a schedule: by a cron expression in a time zone, or by an interval.

At changes of the clock it follows the rules of Debian's cron. Expressions with a fixed minute and
hour follow the local clock: a skipped time runs right after the change, and a repeated time runs
once. Expressions whose minute or hour begins with `*` follow the time that passes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import Meta, Struct

from odf_protocol.errors import BadInput, LimitExceeded, NotFound
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_protocol.metadata.events import DatasetKind
from odf_protocol.typed import convert, decode_json
from odf_storage.datasets.job_payloads import mirror_job, poll_job
from odf_storage.datasets.job_payloads.mirror_job import MirrorPayload
from odf_storage.datasets.job_payloads.poll_job import PollPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload, job_of
from odf_storage.runtime.clock import Clock, Random
from odf_storage.stores.index.sql import DatasetEntries
from odf_storage.stores.ports.values import DatasetEntry, JobId, JobSpec, Schedule
from odf_storage.stores.registers.datasets.following import MirrorReads
from odf_storage.stores.registers.datasets.schedules import Schedules

from ..auth.actors import Actor

MIN_EVERY_S = 1
MAX_EVERY_S = 366 * 86_400
MAX_CRON_CHARS = 200


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
        raise BadInput("InvalidSchedule", "a schedule has either `cron` or `everySeconds`")
    if every_s is not None and not MIN_EVERY_S <= every_s <= MAX_EVERY_S:
        raise BadInput("InvalidSchedule", f"everySeconds is from {MIN_EVERY_S} to {MAX_EVERY_S}")
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            "InvalidSchedule",
            f"there is no time zone {time_zone[:50]!r}; names are those of IANA, such as "
            "Europe/Berlin",
        ) from None
    if cron is not None:
        _check_cron(cron, zone)


def _check_cron(cron: str, zone: ZoneInfo) -> None:
    if len(cron) > MAX_CRON_CHARS or len(cron.split()) not in (5, 6):
        raise BadInput("InvalidSchedule", "a cron expression has five fields, or six with seconds")
    try:
        following = next(CronSim(cron, datetime.now(zone)), None)
    except CronSimError as bad:
        raise BadInput("InvalidSchedule", f"the cron expression cannot be read: {bad}") from None
    if following is None or following - datetime.now(zone) > timedelta(days=366 * 50):
        raise BadInput("InvalidSchedule", "the cron expression names no time to come")


def _next_beat(start: Instant, every_s: int, after: Instant) -> Instant:
    """Return the next time, counted from the schedule's creation so that times do not drift."""
    every = every_s * NANOS
    passed = max(0, after.ns - start.ns) // every
    return Instant(start.ns + (passed + 1) * every)


REFRESH = "refresh"
MAX_SCHEDULES = 50
"""Limit of schedules of one dataset."""
DUE_AT_ONCE = 100
CLOCKS_APART_S = 60
"""Seconds by which clocks of services may differ."""
_log = logging.getLogger("odf.node")


class ScheduleBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request, with either `cron` or `every_seconds`."""

    cron: str | None = None
    every_seconds: int | None = None
    time_zone: str = "UTC"
    paused: bool = False
    exhaust_sources: bool = False
    """For polled roots: whether to continue while the source has more."""
    fetch_uncacheable: bool = False
    max_vanish_percent: Annotated[int, Meta(ge=0, le=100)] | None = None
    """For polled snapshots: percentage of rows that may vanish at once; default: the node's
    setting."""


def read_body(content: bytes) -> ScheduleBody:
    """Parse the body of a request. Raises `MalformedSchedule`."""
    try:
        return decode_json(content, ScheduleBody)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise BadInput("MalformedSchedule", f"the schedule cannot be read: {bad}") from None


@dataclass(frozen=True)
class Scheduling:
    """The store of schedules, and what is needed to submit their jobs."""

    schedules: Schedules
    registry: DatasetEntries
    mirrors: MirrorReads
    everything_is_read: bool
    """Whether derivatives may read all datasets of the node."""
    refreshes: Callable[[DatasetEntry], bool]
    """Whether a refresh of the dataset has something to do."""
    clock: Clock
    random: Random


def add_schedule(
    scheduling: Scheduling, actor: Actor, entry: DatasetEntry, body: ScheduleBody
) -> Schedule:
    """Add a schedule. Raises `InvalidSchedule`, `NothingToRefresh`, `TooManySchedules`."""
    if not scheduling.refreshes(entry):
        raise BadInput(
            "NothingToRefresh",
            "this dataset has no source that the node could poll: its rows are posted; add a "
            "polling source first, or have what posts the rows run on a schedule",
        )
    if len(scheduling.schedules.of_dataset(entry.id)) >= MAX_SCHEDULES:
        raise LimitExceeded(
            "TooManySchedules", f"a dataset may have {MAX_SCHEDULES} schedules", limit=MAX_SCHEDULES
        )
    blank = Schedule(
        id=scheduling.random(12).hex(),
        dataset=entry.id,
        kind=REFRESH,
        payload={},
        cron=None,
        every_s=None,
        time_zone="UTC",
        paused=False,
        created_at=scheduling.clock(),
        created_by=actor.account.id if actor.account is not None else None,
    )
    return _put(scheduling, blank, body)


def change_schedule(
    scheduling: Scheduling, entry: DatasetEntry, schedule: str, body: ScheduleBody
) -> Schedule:
    """Replace a schedule. Raises `ScheduleNotFound`, `InvalidSchedule`."""
    return _put(scheduling, find_schedule(scheduling.schedules, entry, schedule), body)


def find_schedule(schedules: Schedules, entry: DatasetEntry, schedule: str) -> Schedule:
    """Return a schedule of the dataset. Raises `ScheduleNotFound`."""
    found = schedules.find(schedule)
    if found is None or found.dataset != entry.id:
        raise NotFound("ScheduleNotFound", f"the dataset has no schedule {schedule[:50]!r}")
    return found


def remove_schedule(schedules: Schedules, entry: DatasetEntry, schedule: str) -> None:
    """Remove a schedule; its running jobs continue. Raises `ScheduleNotFound`."""
    schedules.remove(find_schedule(schedules, entry, schedule).id)


def _put(scheduling: Scheduling, schedule: Schedule, body: ScheduleBody) -> Schedule:
    check_times(body.cron, body.every_seconds, body.time_zone)
    options = PollPayload(
        exhaust_sources=body.exhaust_sources,
        fetch_uncacheable=body.fetch_uncacheable,
        max_vanish_percent=body.max_vanish_percent,
    )
    changed = replace(
        schedule,
        payload=poll_job.to_json(options),
        cron=body.cron,
        every_s=body.every_seconds,
        time_zone=body.time_zone,
        paused=body.paused,
        next_at=None,
    )
    if not body.paused:
        changed = replace(changed, next_at=next_time(changed, scheduling.clock()))
    scheduling.schedules.put(changed)
    return changed


def shown(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as JSON."""
    options = msgspec.to_builtins(convert(schedule.payload, PollPayload))
    return {
        "id": schedule.id,
        "cron": schedule.cron,
        "everySeconds": schedule.every_s,
        "timeZone": schedule.time_zone,
        "paused": schedule.paused,
        "exhaustSources": bool(options.get("exhaustSources", False)),
        "fetchUncacheable": bool(options.get("fetchUncacheable", False)),
        "maxVanishPercent": options.get("maxVanishPercent"),
        "createdAt": str(schedule.created_at),
        "lastAt": None if schedule.last_at is None else str(schedule.last_at),
        "nextAt": None if schedule.next_at is None else str(schedule.next_at),
    }


def start_due(scheduling: Scheduling) -> int:
    """Queue the jobs of due schedules. Return how many this process has queued.

    Each is queued once, even if other services do the same. If a schedule was missed several
    times while no service ran, it is queued only once. A schedule that cannot be started stays due,
    and delays no other one.
    """
    now = scheduling.clock()
    started = 0
    for schedule in scheduling.schedules.due(now, limit=DUE_AT_ONCE):
        try:
            started += start_schedule(scheduling, schedule, now) is not None
        except Exception:  # for example, its time zone is no longer known
            _log.exception(
                "schedule %s of dataset %s cannot be started", schedule.id, schedule.dataset
            )
    return started


def set_back_schedules(scheduling: Scheduling) -> int:
    """Give schedules that a clock ahead of ours started last their next times by ours; without
    that, they would rest until it is as late as that clock said. Return how many."""
    now = scheduling.clock()
    ahead = scheduling.schedules.of_the_future(Instant(now.ns + CLOCKS_APART_S * NANOS))
    for schedule in ahead:
        scheduling.schedules.set_back(schedule, now=now, next_at=next_time(schedule, now))
    return len(ahead)


def start_schedule(scheduling: Scheduling, schedule: Schedule, now: Instant) -> JobId | None:
    """Queue the job of a due schedule; None if another process did, or the dataset is gone."""
    entry = scheduling.registry.find(DatasetRef(id=schedule.dataset))
    if entry is None:
        return None
    spec = replace(
        spec_of(scheduling, entry, schedule.payload),
        schedule=schedule.id,
        account=schedule.created_by,
    )
    following = next_time(schedule, now)
    return scheduling.schedules.start(schedule, spec, now=now, next_at=following)


def spec_of(scheduling: Scheduling, entry: DatasetEntry, payload: dict[str, Any]) -> JobSpec:
    """Return the job that refreshes this kind of dataset; it joins one that is already queued."""
    if scheduling.mirrors.find(entry.id) is not None:
        return mirror_job.spec_of(entry.id, MirrorPayload())
    if entry.kind is DatasetKind.Derivative:
        everything_is_read = scheduling.everything_is_read or None
        return job_of(entry.id, TransformPayload(everything_is_read=everything_is_read))
    lock = str(entry.id)
    return JobSpec(poll_job.KIND, entry.id, payload, lock=lock, dedup_key=f"scheduled:{lock}")
