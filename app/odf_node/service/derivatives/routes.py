"""Route for the graph of datasets around one dataset.

Refresh of a dataset: submit a job that polls its source, pulls its remote, or transforms its
inputs.

POST …/refresh: poll a source, pull a mirror or compute a derivative, and return the receipt.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import DatasetKind
from odf_storage.datasets.job_payloads import poll_job
from odf_storage.datasets.job_payloads.poll_job import PollPayload
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.values import DatasetEntry, JobId, JobSpec, Succeeded

from ..auth.actors import Actor
from ..http.answers import JsonAnswer
from ..http.deps import ActorDep, BaseDep, ReadableDep, WritableDep, wired
from ..http.parameters import NO_BODY, parsed_event_time
from ..jobs.job_watch import Waiting, WaitingDep, accepted, job_answer, patience_of, receipt_answer
from ..mirrors.mirrors import Mirrors, submit_pull
from .derivatives import Derivatives
from .derivatives import dependencies as dependencies_of
from .follow import Computing, submit_transform, upstream_levels


@dataclass(frozen=True)
class Refreshing:
    """The dependencies of refreshes."""

    jobs: JobQueue
    mirrors: Mirrors
    computing: Computing


def submit_refresh(
    refreshing: Refreshing,
    entry: DatasetEntry,
    payload: PollPayload,
    *,
    force: bool = False,
    reset_on_diverged: bool | None = None,
) -> JobId:
    """Queue a poll, the pull of a mirror, or a transform. If an equal job waits already, return
    that one.

    Raises:
        NotAMirror: `force` is set, and the dataset is not a mirror.
        InvalidEventTime: the fallback event time is not an instant.
    """
    if refreshing.mirrors.stores.mirrors.find(entry.id) is not None:
        return submit_pull(refreshing.mirrors, entry, force=force)
    if force:
        raise BadInput("NotAMirror", "only a mirror can be forced to follow: this dataset is none")
    if entry.kind is DatasetKind.Derivative:
        return submit_transform(refreshing.computing, entry, reset_on_diverged=reset_on_diverged)
    when = parsed_event_time(payload.source_event_time)
    asked = poll_job.to_json(replace(payload, source_event_time=when))
    lock = str(entry.id)
    key = f"{poll_job.KIND}:{lock}:{json.dumps(asked, sort_keys=True)}"
    return refreshing.jobs.submit(JobSpec(poll_job.KIND, entry.id, asked, lock=lock, dedup_key=key))


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


DerivativesDep = Annotated[Derivatives, Depends(wired(Derivatives))]


def add_derivative_routes(routes: APIRouter, prefix: str) -> None:
    """Serve the graph of dependencies below the dataset addresses."""
    routes.get(
        prefix + "/dependencies", summary="What it reads, and who reads it", tags=["datasets"]
    )(dependencies)


def dependencies(derivatives: DerivativesDep, actor: ActorDep, entry: ReadableDep) -> Response:
    """Return the graph, without datasets that the caller may not see and without datasets that are
    reachable only through these."""
    return JsonAnswer(dependencies_of(derivatives, actor, entry))
