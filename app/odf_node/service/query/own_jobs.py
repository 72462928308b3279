"""The list of an account's queries as jobs: their text, and how long their rows are kept."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.job_payloads import query_job
from odf_storage.stores.ports.values import Job, JobStatus, Reach, Scope, Succeeded

from ..auth.access import Unauthenticated, Unauthorized, refuse_bad_token
from ..auth.actors import Actor
from ..jobs.jobs import Jobs, shown


def own_queries(
    jobs: Jobs,
    actor: Actor,
    *,
    keep_s: int,
    statuses: Collection[JobStatus] | None,
    after: str | None,
    limit: int,
) -> dict[str, Any]:
    """Return the jobs of the actor's account, newest first; `next` is `after` for the next page.

    Raises:
        TokenInvalid, TokenExpired.
        Unauthenticated: the caller is anonymous, or its token does not allow reading.
        Unauthorized: the token is for a part of the account's datasets; queries name others.
    """
    refuse_bad_token(actor)
    if actor.account is None or not actor.may(Scope.READ):
        raise Unauthenticated
    if actor.reach is not Reach.NODE:
        raise Unauthorized("this token is for a part of the account's datasets only")
    found = jobs.queue.page(
        account=actor.account.id,
        kinds=[query_job.KIND],
        statuses=statuses,
        after=after,
        limit=limit,
        newest_first=True,
    )
    more = str(found[-1].id) if len(found) == limit else None
    return {"jobs": [_shown(job, keep_s) for job in found], "next": more}


def _shown(job: Job, keep_s: int) -> dict[str, Any]:
    document = {**shown(job), "query": query_job.payload_of(job.spec.payload).query}
    if isinstance(job.outcome, Succeeded) and job.finished_at is not None:
        document["rowsUntil"] = str(Instant(job.finished_at.ns + keep_s * NANOS))
    return document
