"""Routes for the schedules of a dataset, and for the runs of its refreshes.

Periodic work of the service: start due schedules, heal objects, remove old records.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.integrity.healing import HealingStores, retry_open_damages
from odf_storage.runtime.clock import Clock
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.registers.accounts.access import DeviceLogins
from odf_storage.stores.registers.datasets.damages import DamageLog

from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, ReadableDep, StoresDep, WritableDep, wired
from ..http.parameters import MAX_PAGE
from ..jobs.jobs import list_jobs, parse_statuses
from ..jobs.routes import JobsDep
from ..query.background import BackgroundQueries
from . import schedules as usecase
from .schedules import Scheduling, read_body, set_back_schedules, shown, start_due

MAX_BODY_BYTES = 8192
DEFAULT_PAGE = 50
SchedulingDep = Annotated[Scheduling, Depends(wired(Scheduling))]
RUNS = ("poll", "mirror", "transform")
"""Kinds of jobs that refresh a dataset from its source."""


def schedules(stores: StoresDep, entry: ReadableDep) -> Response:
    """List the schedules in the order of their creation."""
    found = stores.schedules.of_dataset(entry.id)
    return JsonAnswer({"schedules": [shown(each) for each in found]})


async def add(
    request: Request, scheduling: SchedulingDep, actor: ActorDep, entry: WritableDep
) -> Response:
    """Add `{"cron": "0 6 * * 1-5", "timeZone": "Europe/Berlin"}` or `{"everySeconds": 600}`."""
    body = read_body(await small_body(request, MAX_BODY_BYTES))
    made = await run_in_threadpool(usecase.add_schedule, scheduling, actor, entry, body)
    return JsonAnswer(shown(made), 201)


def show(schedule: str, stores: StoresDep, entry: ReadableDep) -> Response:
    return JsonAnswer(shown(usecase.find_schedule(stores.schedules, entry, schedule)))


async def change(
    schedule: str, request: Request, scheduling: SchedulingDep, entry: WritableDep
) -> Response:
    """Replace a schedule; absent members have their default. `paused` pauses or resumes it."""
    body = read_body(await small_body(request, MAX_BODY_BYTES))
    return JsonAnswer(
        shown(await run_in_threadpool(usecase.change_schedule, scheduling, entry, schedule, body))
    )


def remove(schedule: str, stores: StoresDep, entry: WritableDep) -> Response:
    usecase.remove_schedule(stores.schedules, entry, schedule)
    return Response(status_code=204)


def runs(
    jobs: JobsDep,
    actor: ActorDep,
    entry: ReadableDep,
    schedule: Annotated[str | None, Query(max_length=100)] = None,
    status: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1)] = DEFAULT_PAGE,
) -> Response:
    """List refreshes of the dataset, newest first, with schedule, time and outcome."""
    page = list_jobs(
        jobs,
        actor,
        entry,
        statuses=parse_statuses(status),
        kinds=RUNS,
        schedule=schedule,
        after=after,
        limit=min(limit, MAX_PAGE),
    )
    return JsonAnswer({"runs": page["jobs"], "next": page["next"]})


def add_schedule_routes(routes: APIRouter, prefix: str) -> None:
    """Add the routes below the dataset addresses."""
    tags: list[str | Enum] = ["schedules"]
    all_, one = prefix + "/schedules", prefix + "/schedules/{schedule}"
    routes.get(all_, summary="Schedules of a dataset", tags=tags)(schedules)
    routes.post(all_, summary="Add a schedule", status_code=201, tags=tags)(add)
    routes.get(one, summary="A schedule", tags=tags)(show)
    routes.put(one, summary="Change or pause a schedule", tags=tags)(change)
    routes.delete(one, summary="Remove a schedule", status_code=204, tags=tags)(remove)
    routes.get(prefix + "/runs", summary="Refreshes of a dataset, newest first", tags=tags)(runs)


STOP_S = 5.0
PRUNE_S = 3600.0
LOOK_S = 15.0
"""Seconds between two attempts to heal damaged objects."""
HEALED_KEPT_S = 90 * 86_400
"""Seconds for which the record of a healed object is kept."""
_log = logging.getLogger("odf.node")


@dataclass(frozen=True)
class Pruning:
    """The records that are removed when they are old, and how long they are kept."""

    jobs: JobQueue
    damages: DamageLog
    devices: DeviceLogins
    queries: BackgroundQueries
    job_keep_s: int
    rejected_rows_keep_s: int
    clock: Clock


class Ticker:
    """A thread that runs every `schedule_tick_s` seconds; every service process has one."""

    def __init__(
        self, scheduling: Scheduling, pruning: Pruning, stores: HealingStores, *, tick_s: float
    ) -> None:
        self._scheduling, self._pruning, self._stores = scheduling, pruning, stores
        self._tick_s = tick_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _work(self) -> None:
        tick_s = self._tick_s
        left = look = 0.0
        while not self._stop.is_set():
            try:
                start_due(self._scheduling)
                if look <= 0:
                    set_back_schedules(self._scheduling)
                    retry_open_damages(self._stores)
                    look = LOOK_S
                if left <= 0:
                    prune(self._pruning)
                    left = PRUNE_S
            except Exception:  # the database is busy or restarts: the next tick may succeed
                _log.exception("schedules were not looked at")
            left -= tick_s
            look -= tick_s
            self._stop.wait(tick_s)


def prune(pruning: Pruning) -> int:
    """Remove old jobs, expired request keys, old rejected rows, old results of queries, records
    of objects healed long ago, and expired device logins. Return the number of removed jobs."""
    now = pruning.clock().ns
    pruning.damages.prune(before=Instant(now - HEALED_KEPT_S * NANOS))
    pruning.devices.remove_expired(Instant(now))
    pruning.queries.collect()
    return pruning.jobs.prune(
        before=Instant(now - pruning.job_keep_s * NANOS),
        rejected_before=Instant(now - pruning.rejected_rows_keep_s * NANOS),
    )
