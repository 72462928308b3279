"""Routes for the schedules of a dataset, and for the runs of its refreshes."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import ActorDep, ReadableDep, StoresDep, WritableDep, wired
from ..http.parameters import MAX_PAGE
from ..jobs.jobs import list_jobs, parse_statuses
from ..jobs.routes import JobsDep
from . import schedules as usecase
from .schedules import Scheduling, read_body, shown

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
