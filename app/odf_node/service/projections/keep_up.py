"""Keep publications up to date: submit jobs for heads that were not published yet.

A comparison of two columns of the index finds them. So nothing is lost when a service dies, one
refresh covers any number of moves, and several services may run this at the same time.
"""

from __future__ import annotations

import logging

from odf_protocol.errors import NodeError
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads.publish_job import receipt_of
from odf_storage.stores.ports.derivation_values import Problem
from odf_storage.stores.ports.errors import BlockNotFound
from odf_storage.stores.ports.publication_values import PublishedDataset
from odf_storage.stores.ports.values import Failed, Job, Succeeded

from ..derivatives.follow import is_passing
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
