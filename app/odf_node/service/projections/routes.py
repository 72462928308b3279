"""`…/projections/kartothek`: maintainers publish a dataset as a Kartothek dataset.

Keep publications up to date: submit jobs for heads that were not published yet.

A comparison of two columns of the index finds them. So nothing is lost when a service dies, one
refresh covers any number of moves, and several services may run this at the same time.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from odf_protocol.errors import BadInput, NodeError
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_protocol.typed import decode_json
from odf_storage.datasets.job_payloads.publish_job import receipt_of
from odf_storage.datasets.kartothek.definition import Definition
from odf_storage.stores.ports.errors import BlockNotFound
from odf_storage.stores.ports.following import Problem
from odf_storage.stores.ports.publications import PublishedDataset
from odf_storage.stores.ports.values import Failed, Job, Succeeded

from ..derivatives.follow import is_passing
from ..http.answers import JsonAnswer
from ..http.bodies import small_body
from ..http.deps import BaseDep, MaintainedDep, wired
from ..http.parameters import NO_BODY
from ..jobs.job_watch import WaitingDep, accepted, job_answer, patience_of, receipt_answer
from . import publications as usecase
from .publications import Publishing, submit

LONGEST_PAUSE_S = 300
ATTEMPTS_COUNTED = 10
"""Number of failures after which the pause stops growing."""
PASSING = frozenset({"SwapLost", BlockNotFound.__name__})
"""Errors after which a retry may succeed, whatever their branch."""
_log = logging.getLogger("odf.publish")


def keep_up(publishing: Publishing) -> None:
    """Run one round: record the outcome of ended jobs, and submit due jobs."""
    stores = publishing.stores
    at_work = stores.publications.at_work()
    jobs = stores.jobs.get_all([row.job for row in at_work if row.job is not None])
    for row in at_work:
        job = None if row.job is None else jobs.get(row.job)
        if job is None or job.finished_at is not None:
            _settle(publishing, row, job)
    for row, head in stores.publications.due(now=publishing.clock()):
        try:
            submit(publishing, row, head, if_due=True)
        except NodeError:  # continue with the other publications
            _log.exception("publication of %s was not submitted", row.dataset)


def settle(publishing: Publishing, row: PublishedDataset) -> None:
    """Record the outcome of a publication's job, if it has ended."""
    if row.job is None:
        return
    job = publishing.stores.jobs.get_all([row.job]).get(row.job)
    if job is not None and job.finished_at is not None:
        _settle(publishing, row, job)


def _settle(publishing: Publishing, row: PublishedDataset, job: Job | None) -> None:
    if row.job is None:
        return
    outcome = None if job is None else job.outcome
    if isinstance(outcome, Succeeded):
        _succeeded(publishing, row, outcome)
    elif isinstance(outcome, Failed):
        _failed(publishing, row, outcome)
    else:  # cancelled or removed: its effect is unknown
        publishing.stores.publications.ended(
            row.dataset, job=row.job, retry_at=_after(publishing, 1)
        )


def _succeeded(publishing: Publishing, row: PublishedDataset, outcome: Succeeded) -> None:
    receipt = receipt_of(outcome.result)
    if row.job is None or receipt.head is None:
        return
    head = Multihash.parse(receipt.head)
    publishing.stores.publications.ended(row.dataset, job=row.job, shown=outcome.result, head=head)


def _failed(publishing: Publishing, row: PublishedDataset, failed: Failed) -> None:
    """Schedule a retry after a temporary error; otherwise wait for the next head or a request."""
    if row.job is None:
        return
    retry_at = None
    if failed.error in PASSING or is_passing(failed):
        retry_at = _after(
            publishing, min(LONGEST_PAUSE_S, 2 ** min(row.attempts, ATTEMPTS_COUNTED))
        )
    problem = Problem(failed.error, failed.message, failed.facts)
    publishing.stores.publications.ended(
        row.dataset, job=row.job, problem=problem, retry_at=retry_at
    )


def _after(publishing: Publishing, seconds: float) -> Instant:
    return Instant(publishing.clock().ns + int(seconds * NANOS))


MAX_BODY_BYTES = 65_536
PublishingDep = Annotated[Publishing, Depends(wired(Publishing))]
Prefer = Annotated[str, Header()]
Force = Annotated[bool, Query()]


def show(publishing: PublishingDep, entry: MaintainedDep) -> Response:
    """Return the definition, the published block, and the last error."""
    settle(publishing, usecase.find(publishing, entry))
    return JsonAnswer(usecase.shown(publishing, entry))


async def define(
    request: Request,
    publishing: PublishingDep,
    waiting: WaitingDep,
    entry: MaintainedDep,
    prefer: Prefer = "",
) -> Response:
    """Publish by `{"mode": "state", "secondaryIndices": ["city"]}`; absent members have defaults.

    The response waits for the first refresh for as long as the caller allows.
    """
    raw = await small_body(request, MAX_BODY_BYTES)
    try:
        asked = decode_json(raw or b"{}", Definition)
    except (msgspec.DecodeError, UnicodeError) as bad:
        raise BadInput(
            "MalformedBody", f"the publication cannot be read: {str(bad)[:300]}"
        ) from None
    job = await run_in_threadpool(usecase.define, publishing, entry, asked)
    await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    return await run_in_threadpool(show, publishing, entry)


async def refresh(
    publishing: PublishingDep,
    waiting: WaitingDep,
    entry: MaintainedDep,
    base: BaseDep,
    force: Force = False,
    prefer: Prefer = "",
) -> Response:
    """Update the publication to the head; `force` takes over a foreign dataset in the store."""
    job = await run_in_threadpool(usecase.refresh, publishing, entry, force=force)
    return await job_answer(waiting, job, base, prefer)


async def withdraw(
    publishing: PublishingDep,
    waiting: WaitingDep,
    entry: MaintainedDep,
    base: BaseDep,
    force: Force = False,
    leave_files: Annotated[bool, Query(alias="leaveFiles")] = False,
    prefer: Prefer = "",
) -> Response:
    """Remove the published files, the state file first; with `leaveFiles`, remove only the
    publication. The dataset itself stays unchanged."""
    if leave_files:
        await run_in_threadpool(usecase.abandon, publishing, entry)
        return Response(status_code=204)
    job = await run_in_threadpool(usecase.withdraw, publishing, entry, force=force)
    ended = await waiting.watch.ended(job, patience_of(prefer, waiting.most_s))
    if ended is None:
        return accepted(job, base)
    return (
        Response(status_code=204) if isinstance(ended.outcome, Succeeded) else receipt_answer(ended)
    )


def add_projection_routes(routes: APIRouter, prefix: str) -> None:
    """Add the routes below the dataset addresses."""
    tags: list[str | Enum] = ["projections"]
    path = prefix + "/projections/kartothek"
    routes.get(path, summary="How the dataset is published", tags=tags)(show)
    routes.put(path, summary="Publish the dataset", tags=tags)(define)
    routes.delete(path, summary="Withdraw what was published", tags=tags)(withdraw)
    routes.post(
        path + "/refresh",
        summary="Bring what is published to the head",
        tags=tags,
        dependencies=NO_BODY,
    )(refresh)
