"""Waiting for a job a moment: its receipt if it ends soon, 202 with where to look if not."""

from __future__ import annotations

import asyncio
import time

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from storage.values import JobId

from ..usecases.refresh import ended
from ..wiring import Node
from .ingest import accepted, receipt_answer


async def job_answer(node: Node, job: JobId, base: str, prefer: str) -> Response:
    """What became of the job; `respond-async` does not wait at all."""
    patience = 0.0 if "respond-async" in prefer else node.settings.ingest_wait_s
    deadline = time.monotonic() + patience
    while (done := await run_in_threadpool(ended, node, job)) is None:
        if time.monotonic() >= deadline:
            return accepted(job, base)
        await asyncio.sleep(node.settings.ingest_poll_s)
    return receipt_answer(done)
