"""POST …/refresh: have the polling source fetched, or a mirror pulled, wait for the receipt."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from storage.poll_job import PollPayload

from ..usecases.refresh import ended, submit_refresh
from .deps import BaseDep, NodeDep, WritableDep
from .ingest import accepted, receipt_answer


def add_refresh(router: APIRouter, prefix: str) -> None:
    """Serve refresh below the dataset addresses."""
    router.post(prefix + "/refresh", summary="Fetch the polling source", tags=["ingest"])(refresh)


async def refresh(
    node: NodeDep,
    entry: WritableDep,
    base: BaseDep,
    exhaust_sources: Annotated[bool, Query(alias="exhaustSources")] = False,
    fetch_uncacheable: Annotated[bool, Query(alias="fetchUncacheable")] = False,
    force: bool = False,
    max_vanish_percent: Annotated[int | None, Query(alias="maxVanishPercent", ge=0, le=100)] = None,
    event_time: Annotated[str | None, Header(alias="odf-event-time")] = None,
    prefer: Annotated[str, Header()] = "",
) -> Response:
    """The receipt once that has ended, 202 with the job if it takes too long."""
    payload = PollPayload(
        exhaust_sources=exhaust_sources,
        fetch_uncacheable=fetch_uncacheable,
        source_event_time=event_time,
        max_vanish_percent=max_vanish_percent,
    )
    job = await run_in_threadpool(submit_refresh, node, entry, payload, force=force)
    patience = 0.0 if "respond-async" in prefer else node.settings.ingest_wait_s
    deadline = time.monotonic() + patience
    while (done := await run_in_threadpool(ended, node, job)) is None:
        if time.monotonic() >= deadline:
            return accepted(job, base)
        await asyncio.sleep(node.settings.ingest_poll_s)
    return receipt_answer(done)
