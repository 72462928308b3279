"""POST …/refresh: poll a source, pull a mirror or compute a derivative, and return the receipt."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_storage.datasets.job_payloads.poll_job import PollPayload
from odf_storage.stores.ports.values import DatasetEntry, Succeeded

from ..auth.actors import Actor
from ..http.deps import ActorDep, BaseDep, WritableDep, wired
from ..http.parameters import NO_BODY
from ..jobs.waiting import Waiting, WaitingDep, accepted, job_answer, patience_of, receipt_answer
from .refresh import Refreshing, submit_refresh
from .refresh_derivative import upstream_levels

MAX_FILES = 100
"""Limit of files that a request may name."""
RefreshingDep = Annotated[Refreshing, Depends(wired(Refreshing))]


def add_refresh(router: APIRouter, prefix: str) -> None:
    """Serve refresh below the dataset addresses."""
    router.post(
        prefix + "/refresh",
        summary="Fetch, pull or compute what is new",
        tags=["ingest"],
        dependencies=NO_BODY,
    )(refresh)


async def refresh(
    refreshing: RefreshingDep,
    waiting: WaitingDep,
    actor: ActorDep,
    entry: WritableDep,
    base: BaseDep,
    exhaust_sources: Annotated[bool, Query(alias="exhaustSources")] = False,
    fetch_uncacheable: Annotated[bool, Query(alias="fetchUncacheable")] = False,
    force: bool = False,
    recursive: bool = False,
    reset_on_diverged: Annotated[bool | None, Query(alias="resetOnDivergedInput")] = None,
    max_vanish_percent: Annotated[int | None, Query(alias="maxVanishPercent", ge=0, le=100)] = None,
    late_files: Annotated[bool, Query(alias="lateFiles")] = False,
    file: Annotated[list[str] | None, Query(max_length=MAX_FILES)] = None,
    event_time: Annotated[str | None, Header(alias="odf-event-time")] = None,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """Return the receipt once the job has ended, 202 with the job if it takes too long.

    With `recursive`, all datasets that it depends on are refreshed first, level by level, until
    the first failure. If patience ends before that is done, automatic updates do the rest.
    """
    payload = PollPayload(
        exhaust_sources=exhaust_sources,
        fetch_uncacheable=fetch_uncacheable,
        source_event_time=event_time,
        max_vanish_percent=max_vanish_percent,
        late_files=late_files,
        files=tuple(file or ()),
    )
    if recursive:
        stopped = await _refresh_upstream(refreshing, waiting, actor, entry, base, prefer)
        if stopped is not None:
            return stopped
    job = await run_in_threadpool(
        submit_refresh, refreshing, entry, payload, force=force, reset_on_diverged=reset_on_diverged
    )
    return await job_answer(waiting, job, base, prefer)


async def _refresh_upstream(
    refreshing: Refreshing,
    waiting: Waiting,
    actor: Actor,
    entry: DatasetEntry,
    base: str,
    prefer: str,
) -> Response | None:
    """Refresh all levels of upstream datasets. Return None, or the response that ends the refresh
    early: a failure, or 202 when patience ends."""
    deadline = time.monotonic() + patience_of(prefer, waiting.most_s)
    for level in await run_in_threadpool(upstream_levels, refreshing.computing, actor, entry):
        submitted = partial(submit_refresh, refreshing, payload=PollPayload())
        jobs = [await run_in_threadpool(submitted, one) for one in level]
        for job in jobs:
            ended = await waiting.watch.ended(job, max(0.0, deadline - time.monotonic()))
            if ended is None:
                return accepted(job, base)
            if not isinstance(ended.outcome, Succeeded):
                return receipt_answer(ended)
    return None
