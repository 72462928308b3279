"""Jobs as their submitters see them."""

from __future__ import annotations

from typing import Any

from protocol.identity import DatasetRef
from storage.errors import JobNotFound
from storage.values import Failed, Job, JobId, Succeeded

from ..auth.access import Action, grants
from ..auth.actors import Actor
from ..errors import problem, status_of_name
from ..wiring import Node


def find_job(node: Node, actor: Actor, job_id: str) -> Job:
    """A job on a dataset the actor may read. Raises `JobNotFound` for all others."""
    job = node.stores.jobs.get(JobId(job_id))
    entry = node.stores.registry.find(DatasetRef(id=job.spec.dataset)) if job.spec.dataset else None
    if entry is None or Action.READ not in grants(actor, entry, node.settings.tenancy):
        raise JobNotFound(JobId(job_id))
    return job


def shown(job: Job) -> dict[str, Any]:
    """A job as JSON: status, times, and its result or problem once it has ended."""
    document: dict[str, Any] = {
        "id": job.id,
        "kind": job.spec.kind,
        "datasetId": str(job.spec.dataset) if job.spec.dataset else None,
        "status": str(job.status),
        "attempt": job.attempt,
        "submittedAt": str(job.submitted_at),
        "finishedAt": str(job.finished_at) if job.finished_at else None,
    }
    match job.outcome:
        case Succeeded(result=result):
            document["result"] = result
        case Failed(error=error, message=message, facts=facts):
            document["problem"] = problem(error, status_of_name(error), message, facts)
    return document
