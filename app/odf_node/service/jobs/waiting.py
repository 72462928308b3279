"""Responses that wait for a job: its receipt if it ends in time, else 202 with the job's URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.responses import Response

from odf_protocol.errors import Conflict
from odf_storage.stores.ports.values import Failed, Job, JobId, Succeeded

from ..http.answers import JsonAnswer, error_answer, failed_answer
from ..http.deps import wired
from .job_watch import JobWatch

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]{1,9})")


@dataclass(frozen=True)
class Waiting:
    """The watch by which requests wait for jobs, and the limit of the wait in seconds."""

    watch: JobWatch
    most_s: float


WaitingDep = Annotated[Waiting, Depends(wired(Waiting))]


class JobCancelled(Conflict):
    """The job was cancelled before it ended."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled")


def asked_wait(prefer: str) -> float | None:
    """Return the seconds in `wait=SECONDS` of a `Prefer` header, None without it."""
    asked = _WAIT.search(prefer)
    return None if asked is None else float(asked[1])


def patience_of(prefer: str, most_s: float) -> float:
    """Return the seconds to wait, by the `Prefer` header (RFC 7240): `respond-async`,
    `wait=SECONDS`. The limit is `most_s`."""
    asked = asked_wait(prefer)
    if asked is not None:
        return min(asked, most_s)
    return 0.0 if "respond-async" in prefer.lower() else most_s


async def job_answer(waiting: Waiting, job: JobId, base: str, prefer: str) -> Response:
    """Wait for the job and return its receipt, or 202 when the time of the caller or the node is
    over."""
    ended = await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    return accepted(job, base) if ended is None else receipt_answer(ended)


def accepted(job: JobId, base: str) -> Response:
    """Return 202 with the URL of the job."""
    url = f"{base}jobs/{job}"
    shown = {"job": job, "status": "waiting", "url": url, "events": f"{url}/events"}
    return JsonAnswer(shown, 202, {"location": url})


def receipt_answer(job: Job) -> Response:
    """Return the response for a job that has ended: its receipt or its error."""
    match job.outcome:
        case Succeeded(result=receipt):
            return JsonAnswer(receipt)
        case Failed() as failed:
            return failed_answer(failed)
        case None:
            return error_answer(JobCancelled())
