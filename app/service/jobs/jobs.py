"""Jobs as their submitters see them: how far, what came of it, one's own to be cancelled."""

from __future__ import annotations

import gzip
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from odf_node.protocol.errors import BadInput, NotFound
from odf_node.storage.stores.ports import JobQueue
from odf_node.storage.stores.ports.errors import JobNotFound
from odf_node.storage.stores.ports.values import (
    DatasetEntry,
    Failed,
    Job,
    JobId,
    JobStatus,
    Scope,
    Succeeded,
)

from ..auth.access import Action, ActionForbidden, refuse_bad_token
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..errors import problem, status_of_failed

UNTOLD = "why it failed is told to those who may write to the dataset"


class UnknownJobStatus(BadInput):
    """A status no job has."""


class NoRejectedRows(NotFound):
    """A job that set no rows aside, or so long ago that they are kept no more."""

    def __init__(self, job: JobId) -> None:
        super().__init__(f"no rejected rows of job {job} are kept", job=str(job))


@dataclass(frozen=True, slots=True)
class Seen:
    """A job, and whether the actor may know why it failed: that tells what was posted, or where
    from it is fetched, and neither became part of the dataset."""

    job: Job
    in_full: bool

    def shown(self) -> dict[str, Any]:
        return shown(self.job, in_full=self.in_full)


@dataclass(frozen=True)
class Jobs:
    """The queue as it is seen from outside, and who may see what of it."""

    queue: JobQueue
    access: DatasetAccess


def find_job(jobs: Jobs, actor: Actor, job_id: str, action: Action = Action.READ) -> Seen:
    """A job on a dataset the actor may do that with; one on no dataset is its account's alone.

    Raises:
        JobNotFound: no such job, or none that the actor may see.
        ActionForbidden: one that may only be seen.
    """
    job = jobs.queue.get(JobId(job_id))
    if job.spec.dataset is None and _is_own(actor, job):
        return Seen(job, in_full=True)
    entry = jobs.access.visible(actor, job.spec.dataset) if job.spec.dataset else None
    if entry is None:
        raise JobNotFound(JobId(job_id))
    refuse_bad_token(actor)
    allowed = jobs.access.grants(actor, entry)
    if action not in allowed:
        raise ActionForbidden
    return Seen(job, Action.WRITE in allowed)


def _is_own(actor: Actor, job: Job) -> bool:
    account = actor.account
    return account is not None and job.spec.account == account.id and actor.may(Scope.READ)


def cancel_job(jobs: Jobs, actor: Actor, job_id: str) -> Job:
    """A job that has not ended ends now, and whatever it does is not committed.

    Raises as `find_job`.
    """
    job = find_job(jobs, actor, job_id, Action.WRITE).job
    jobs.queue.cancel(job.id)
    return jobs.queue.get(job.id)


def rejected_rows(jobs: Jobs, actor: Actor, job_id: str) -> bytes:
    """The rows a batch was ingested without, as NDJSON. Who may post may see them.

    Raises as `find_job`, and `NoRejectedRows`.
    """
    job = find_job(jobs, actor, job_id, Action.WRITE).job
    rows = jobs.queue.rejected(job.id)
    if rows is None:
        raise NoRejectedRows(job.id)
    return gzip.decompress(rows)


def list_jobs(
    jobs: Jobs,
    actor: Actor,
    entry: DatasetEntry,
    *,
    statuses: Collection[JobStatus] | None,
    kinds: Collection[str] | None,
    schedule: str | None = None,
    after: str | None,
    limit: int,
) -> dict[str, Any]:
    """Jobs of a dataset, newest first; `next` is the `after` of the next page."""
    found = jobs.queue.page(
        dataset=entry.id,
        statuses=statuses,
        kinds=kinds,
        schedule=schedule,
        after=after,
        limit=limit,
        newest_first=True,
    )
    more = str(found[-1].id) if len(found) == limit else None
    in_full = Action.WRITE in jobs.access.grants(actor, entry)
    return {"jobs": [shown(job, in_full=in_full) for job in found], "next": more}


def parse_statuses(text: str | None) -> frozenset[JobStatus] | None:
    """Names separated by commas. Raises `UnknownJobStatus`."""
    if not text:
        return None
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in list(JobStatus):
            known = ", ".join(JobStatus)
            raise UnknownJobStatus(f"no job is {name[:50]!r}; they are {known}")
    return frozenset(JobStatus(name) for name in names)


def shown(job: Job, *, in_full: bool = True) -> dict[str, Any]:
    """A job as JSON: status, times, how far, and its result or problem once it has ended."""
    document: dict[str, Any] = {
        "id": job.id,
        "kind": job.spec.kind,
        "datasetId": str(job.spec.dataset) if job.spec.dataset else None,
        "status": str(job.status),
        "attempt": job.attempt,
        "submittedAt": str(job.submitted_at),
        "finishedAt": str(job.finished_at) if job.finished_at else None,
        "schedule": job.spec.schedule,
        "progress": job.progress,
    }
    if job.spec.payload.get("dryRun"):
        document["dryRun"] = True
    match job.outcome:
        case Succeeded(result=result):
            document["result"] = result if in_full else _without_names(result)
        case Failed(error=error, message=message, facts=facts) as failed:
            told = (message, facts) if in_full else (UNTOLD, {})
            document["problem"] = problem(error, status_of_failed(failed), *told)
    return document


def _without_names(result: dict[str, Any]) -> dict[str, Any]:
    """A receipt without its warnings: they name what was posted and is not in the dataset."""
    return {name: value for name, value in result.items() if name != "warnings"}
