"""Jobs as clients see them: find, list and cancel them, show progress, result and rejected rows.

Jobs of the whole node, for administrators.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from odf_protocol.errors import BadInput, NotFound
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import JobNotFound
from odf_storage.stores.ports.values import (
    DatasetEntry,
    Failed,
    Job,
    JobId,
    JobStatus,
    Reach,
    Scope,
    Succeeded,
)

from ..auth.access import Action, ActionForbidden, refuse_bad_token, require_admin
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..errors import problem, status_of_failed

UNTOLD = "why it failed is told to those who may write to the dataset"


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job, and whether the actor may see why it failed. The reason may contain posted rows or the
    address of the source, which are not part of the dataset."""

    job: Job
    in_full: bool

    def shown(self) -> dict[str, Any]:
        return shown(self.job, in_full=self.in_full)


@dataclass(frozen=True)
class Jobs:
    """The job queue, and the rights to see its jobs."""

    queue: JobQueue
    access: DatasetAccess


def find_job(jobs: Jobs, actor: Actor, job_id: str, action: Action = Action.READ) -> SeenJob:
    """Return a job, if the actor may perform the action on its dataset. A job without a dataset is
    visible to its own account only.

    Raises:
        JobNotFound: there is no such job, or the actor may not see it.
        TokenInvalid, TokenExpired: everybody may see the job, but the token is bad.
        ActionForbidden: the actor may see the job, but not perform the action.
    """
    job = jobs.queue.get(JobId(job_id))
    if job.spec.dataset is None and _is_own(actor, job):
        if action is not Action.READ and not changes_own_jobs(actor):
            raise ActionForbidden
        return SeenJob(job, in_full=True)
    entry = jobs.access.visible(actor, job.spec.dataset) if job.spec.dataset else None
    if entry is None:
        raise JobNotFound(JobId(job_id))
    refuse_bad_token(actor)
    allowed = jobs.access.grants(actor, entry)
    if action not in allowed:
        raise ActionForbidden
    return SeenJob(job, Action.WRITE in allowed)


def _is_own(actor: Actor, job: Job) -> bool:
    account = actor.account
    return account is not None and job.spec.account == account.id and actor.may(Scope.READ)


def changes_own_jobs(actor: Actor) -> bool:
    """Return whether the caller may end jobs of its account that have no dataset: not with a token
    that reads only, or that is for a part of the account's datasets, since the jobs are queries
    over all that the account may read."""
    return actor.reach is Reach.NODE and actor.may(Scope.WRITE)


def cancel_job(jobs: Jobs, actor: Actor, job_id: str) -> Job:
    """Cancel a job that has not ended. Its work is not committed.

    Raises the same errors as `find_job`.
    """
    job = find_job(jobs, actor, job_id, Action.WRITE).job
    jobs.queue.cancel(job.id)
    return jobs.queue.get(job.id)


def rejected_rows(jobs: Jobs, actor: Actor, job_id: str) -> bytes:
    """Return the rows of a batch that ingest set aside, as NDJSON. The actor must be allowed to
    write to the dataset.

    Raises the errors of `find_job`, and `NoRejectedRows`.
    """
    job = find_job(jobs, actor, job_id, Action.WRITE).job
    rows = jobs.queue.rejected(job.id)
    if rows is None:
        raise NotFound(
            "NoRejectedRows", f"no rejected rows of job {job.id} are kept", job=str(job.id)
        )
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
    """Return a page of the jobs of a dataset, newest first. `next` is the `after` of the next
    page."""
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
    """Parse names of statuses, separated by commas. Raises `UnknownJobStatus`."""
    if not text:
        return None
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in list(JobStatus):
            known = ", ".join(JobStatus)
            raise BadInput("UnknownJobStatus", f"no job is {name[:50]!r}; they are {known}")
    return frozenset(JobStatus(name) for name in names)


def shown(job: Job, *, in_full: bool = True) -> dict[str, Any]:
    """Return a job as JSON: status, times, progress, and its result or problem if it has ended."""
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
    """Return a receipt without its warnings, which may contain posted values that are not in the
    dataset."""
    return {name: value for name, value in result.items() if name != "warnings"}


OPEN = frozenset({JobStatus.WAITING, JobStatus.RUNNING})


def all_jobs(
    jobs: Jobs,
    actor: Actor,
    *,
    statuses: Collection[JobStatus] | None,
    kinds: Collection[str] | None,
    after: str | None,
    limit: int,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the jobs of all datasets, newest first, each with the alias of its dataset,
    and the cursor of the next page (None at the end). Of jobs without a dataset, such as queries,
    only their own account sees the details.

    Raises:
        Unauthenticated, Unauthorized.
    """
    admin = require_admin(actor)
    found = jobs.queue.page(
        statuses=statuses, kinds=kinds, after=after, limit=limit + 1, newest_first=True
    )
    page = found[:limit]
    entries = jobs.access.registry.find_all({job.spec.dataset for job in page if job.spec.dataset})

    def one(job: Job) -> dict[str, Any]:
        is_seen = job.spec.dataset is not None or job.spec.account == admin.id
        entry = None if job.spec.dataset is None else entries.get(job.spec.dataset)
        return {
            **shown(job, in_full=is_seen),
            "dataset": None if entry is None else jobs.access.shown_alias(entry),
            "isOpen": is_seen and job.status in OPEN,
        }

    more = str(page[-1].id) if len(found) > limit else None
    return [one(job) for job in page], more
