"""Waiting for a job a moment: its receipt if it ends soon, 202 with where to look if not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.responses import Response

from odf_node.protocol.errors import Conflict
from odf_node.storage.stores.ports.values import Failed, Job, JobId, Succeeded

from ..http.answers import JsonAnswer, error_answer, failed_answer
from ..http.deps import wired
from .job_watch import JobWatch

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,9})")


@dataclass(frozen=True)
class Waiting:
    """How requests wait for their jobs."""

    watch: JobWatch
    most_s: float


WaitingDep = Annotated[Waiting, Depends(wired(Waiting))]


class JobCancelled(Conflict):
    """The job was cancelled before it ended."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled")


def asked_wait(prefer: str) -> float | None:
    """The seconds a `Prefer` header names, if it does."""
    asked = _WAIT.search(prefer)
    return None if asked is None else float(asked[1])


def patience_of(prefer: str, most_s: float) -> float:
    """Seconds to wait, by the `Prefer` header (RFC 7240): `respond-async`, `wait=SECONDS`."""
    asked = asked_wait(prefer)
    if asked is not None:
        return min(asked, most_s)
    return 0.0 if "respond-async" in prefer.lower() else most_s


async def job_answer(waiting: Waiting, job: JobId, base: str, prefer: str) -> Response:
    """What became of the job, as long as the caller and the node have patience."""
    ended = await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    return accepted(job, base) if ended is None else receipt_answer(ended)


def accepted(job: JobId, base: str) -> Response:
    """202 with where to look."""
    url = f"{base}jobs/{job}"
    shown = {"job": job, "status": "waiting", "url": url, "events": f"{url}/events"}
    return JsonAnswer(shown, 202, {"location": url})


def receipt_answer(job: Job) -> Response:
    """What became of a job that has ended."""
    match job.outcome:
        case Succeeded(result=receipt):
            return JsonAnswer(receipt)
        case Failed() as failed:
            return failed_answer(failed)
        case None:
            return error_answer(JobCancelled())
