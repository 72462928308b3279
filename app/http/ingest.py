"""POST …/ingest: take a body, hand it to a worker, wait for the receipt."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterable
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from storage.values import Failed, Job, JobId, ObjectKey, Succeeded

from ..auth.upload_tokens import MAX_CHARS
from ..usecases.ingest import IngestRequest, check_ingest, look, spool, submit
from ..usecases.ingest_files import check_uploaded
from ..wiring import Node
from .answers import JsonAnswer, failed_answer
from .bodies import Body, BodyTooLong
from .deps import ActorDep, BaseDep, NodeDep, OpenDep

SLOW_POLL_S = 1.0
"""Seconds between two looks at a job whose client did not wait."""


def add_ingest(router: APIRouter, prefix: str) -> None:
    """Serve ingest below the dataset addresses."""
    router.post(prefix + "/ingest", summary="Post records to a push source", tags=["ingest"])(
        ingest
    )


async def ingest(
    request: Request,
    node: NodeDep,
    actor: ActorDep,
    entry: OpenDep,
    base: BaseDep,
    source_name: Annotated[str | None, Query(alias="sourceName", max_length=1000)] = None,
    upload_token: Annotated[str | None, Query(alias="uploadToken", max_length=MAX_CHARS)] = None,
    expected_head: Annotated[str | None, Query(alias="expectedHead", max_length=200)] = None,
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,
    max_vanish_percent: Annotated[int | None, Query(alias="maxVanishPercent", ge=0, le=100)] = None,
    event_time: Annotated[str | None, Header(alias="odf-event-time")] = None,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """The receipt once the batch is in, 202 with the job if that takes too long."""
    asked = IngestRequest(
        source_name=source_name,
        media_type=request.headers.get("content-type"),
        event_time=event_time,
        expected_head=expected_head,
        dry_run=dry_run,
        max_vanish_percent=max_vanish_percent,
    )
    chunks: Iterable[bytes]
    if upload_token is None:
        checked = await run_in_threadpool(check_ingest, node, entry, asked)
        chunks = _body(request, node).chunks()
    else:
        given = (node, actor, entry, asked, upload_token)
        checked, chunks = await run_in_threadpool(check_uploaded, *given)
    limiter = request.app.state.uploads
    upload = await to_thread.run_sync(spool, node, entry, chunks, limiter=limiter)
    job = await run_in_threadpool(submit, node, entry, checked, upload)
    patience = 0.0 if "respond-async" in prefer else node.settings.ingest_wait_s
    ended = await _wait(node, job, upload, patience, node.settings.ingest_poll_s)
    if ended is not None:
        return receipt_answer(ended)
    watch(request.app.state.watchers, _wait(node, job, upload, math.inf, SLOW_POLL_S))
    return accepted(job, base)


def watch(
    watchers: set[asyncio.Task[Job | None]], waiting: Coroutine[Any, Any, Job | None]
) -> None:
    """Go on looking at a job nobody waits for, so that its upload is cleared away."""
    task = asyncio.create_task(waiting)
    watchers.add(task)
    task.add_done_callback(watchers.discard)


def _body(request: Request, node: Node) -> Body:
    limit = node.settings.max_body_bytes
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLong(limit)
    return Body(request.receive, limit=limit, idle_s=node.settings.body_idle_s)


async def _wait(
    node: Node, job: JobId, upload: ObjectKey, patience: float, pause: float
) -> Job | None:
    """The job once it has ended, None when patience ends first."""
    deadline = time.monotonic() + patience
    while True:
        ended = await run_in_threadpool(look, node, job, upload)
        if ended is not None or time.monotonic() >= deadline:
            return ended
        await asyncio.sleep(pause)


def accepted(job: JobId, base: str) -> Response:
    """202 with where to look."""
    url = f"{base}jobs/{job}"
    return JsonAnswer({"job": job, "status": "waiting", "url": url}, 202, {"location": url})


def receipt_answer(job: Job) -> Response:
    """What became of a job that has ended."""
    match job.outcome:
        case Succeeded(result=receipt):
            return JsonAnswer(receipt)
        case Failed() as failed:
            return failed_answer(failed)
        case None:
            return failed_answer(Failed("JobCancelled", "the job was cancelled"))
