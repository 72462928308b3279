"""Routes of jobs: status and progress of work that was answered with 202, lists, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_storage.stores.ports.values import Job

from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, ReadableDep, wired
from ..http.parameters import MAX_PAGE
from ..limits.shares import caller_of
from ..news.streams import EventStream, Streams
from . import jobs as usecase
from .job_watch import FINISHED, JobWatch, WaitingDep
from .jobs import Jobs

DEFAULT_PAGE = 50
NDJSON = "application/x-ndjson"

router = APIRouter(tags=["jobs"])
StreamsDep = Annotated[Streams, Depends(wired(Streams))]
JobsDep = Annotated[Jobs, Depends(wired(Jobs))]
Cursor = Annotated[str | None, Query(max_length=100)]


@router.get("/jobs/{job}", summary="Status of a job, with its result or problem")
def job_status(job: str, jobs: JobsDep, actor: ActorDep) -> Response:
    return JsonAnswer(usecase.find_job(jobs, actor, job).shown())


@router.delete("/jobs/{job}", summary="Cancel a job that has not ended")
def cancel(job: str, jobs: JobsDep, actor: ActorDep) -> Response:
    """The work of the job is not committed. A job that has already ended does not change."""
    return JsonAnswer(usecase.shown(usecase.cancel_job(jobs, actor, job)))


@router.get("/jobs/{job}/rejected", summary="Rows a batch was ingested without")
def rejected_rows(job: str, jobs: JobsDep, actor: ActorDep) -> Response:
    """Return NDJSON with the position of each row, the error in it, and its text."""
    rows = usecase.rejected_rows(jobs, actor, job)
    return Response(rows, 200, {"cache-control": "no-store"}, NDJSON)


@router.get("/jobs/{job}/events", summary="The job as it gets on, as server-sent events")
async def job_events(
    request: Request,
    job: str,
    jobs: JobsDep,
    waiting: WaitingDep,
    streams: StreamsDep,
    actor: ActorDep,
) -> Response:
    """Stream events `job` with the current state of the job. The last event is named `ended`. The
    stream ends without one when the caller may not read the dataset any more.

    Raises the errors of `find_job`, and `ShareTaken`, `AllTaken`: followers of jobs count among
    the listeners of news.
    """
    found = await run_in_threadpool(usecase.find_job, jobs, actor, job)
    caller = caller_of(request.scope)
    streams.slots.take(caller)
    still = partial(_may_still_read, streams, actor, found)
    pieces = _events(waiting.watch, found, still, keep_alive_s=streams.keep_alive_s)
    return EventStream(pieces, streams.idle_s, partial(streams.slots.give_back, caller))


def jobs_of(
    jobs: JobsDep,
    actor: ActorDep,
    entry: ReadableDep,
    status: Annotated[str | None, Query(max_length=200)] = None,
    kind: Annotated[str | None, Query(max_length=200)] = None,
    after: Cursor = None,
    limit: Annotated[int, Query(ge=1)] = DEFAULT_PAGE,
) -> Response:
    """Return jobs, newest first. `status` and `kind` may be several names, separated by commas."""
    size = min(limit, MAX_PAGE)
    statuses = usecase.parse_statuses(status)
    kinds = [name.strip() for name in kind.split(",")] if kind else None
    return JsonAnswer(
        usecase.list_jobs(
            jobs, actor, entry, statuses=statuses, kinds=kinds, after=after, limit=size
        )
    )


def add_job_routes(routes: APIRouter, prefix: str) -> None:
    """Serve lists of jobs below the dataset addresses."""
    tags: list[str | Enum] = ["jobs"]
    routes.get(prefix + "/jobs", summary="Jobs of a dataset, newest first", tags=tags)(jobs_of)


async def _may_still_read(streams: Streams, actor: Actor, seen: usecase.SeenJob) -> bool:
    dataset = seen.job.spec.dataset
    return dataset is None or dataset in await streams.readable(actor, frozenset({dataset}))


async def _events(
    watch: JobWatch,
    seen: usecase.SeenJob,
    may_still_read: Callable[[], Awaitable[bool]],
    *,
    keep_alive_s: float,
) -> AsyncIterator[bytes]:
    changes = watch.changes(seen.job.id)
    following: asyncio.Future[Job] = asyncio.ensure_future(anext(changes))
    try:
        while True:
            done, _ = await asyncio.wait([following], timeout=keep_alive_s)
            if not await may_still_read():
                return
            if not done:
                yield b": still there\n\n"
                continue
            now = following.result()
            name = b"ended" if now.status in FINISHED else b"job"
            content = msgspec.json.encode(usecase.shown(now, in_full=seen.in_full), enc_hook=str)
            yield b"event: " + name + b"\ndata: " + content + b"\n\n"
            if now.status in FINISHED:
                return
            following = asyncio.ensure_future(anext(changes))
    finally:
        following.cancel()
        await asyncio.wait([following])  # a generator that still runs cannot be closed
        await changes.aclose()
