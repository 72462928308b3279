"""Jobs of the whole node, for administrators."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from odf_storage.stores.ports.values import Job, JobStatus

from ..auth.actors import Actor
from ..auth.admins import require_admin
from .jobs import Jobs, shown

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
