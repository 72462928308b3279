"""The handlers of a worker's jobs: a function per kind, except posts, which run in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import SetPollingSource
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import (
    compact_job,
    heal_job,
    poll_job,
    publish_job,
    query_job,
    transform_job,
    trial_job,
    verify_job,
    why_job,
)
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite import compact as history_receipt
from odf_storage.runtime.features import installed, loaded
from odf_storage.stores.ports.values import DatasetEntry, Job

from ..jobs.provenance.run import run_why
from ..jobs.reading.publish import run_publication
from ..jobs.reading.query import run_query
from ..jobs.sources.poll import run_poll
from ..jobs.sources.trial import run_trial
from ..jobs.transform.check import run_check, run_source_check
from ..jobs.transform.run import run_transform
from ..jobs.upkeep.compact import run_compaction
from ..jobs.upkeep.heal import run_heal
from ..jobs.verify.candidate import run_candidate
from ..jobs.verify.rows import hash_rows
from ..jobs.verify.run import run_verification
from ..jobs.work.context import WorkerContext

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a worker passes to the function that runs a job."""

    stores: Stores
    worker: WorkerContext
    secrets: Callable[[DatasetEntry, SetPollingSource], Mapping[str, str]]
    """Returns the variables that templates of a source may read, beside those that the
    administrator allows."""


def payload_of(job: Job, read: Callable[[dict[str, Any]], P]) -> P:
    """Return the payload of a job on a dataset. Raises `MalformedJob`."""
    kind = job.spec.kind
    if job.spec.dataset is None:
        raise BadInput("MalformedJob", f"the {kind} job names no dataset")
    return _read_payload(job, read)


def _read_payload(job: Job, read: Callable[[dict[str, Any]], P]) -> P:
    """Return the payload of a job. Raises `MalformedJob`."""
    try:
        return read(job.spec.payload)
    except ValueError as bad:
        kind = job.spec.kind
        raise BadInput(
            "MalformedJob", f"the payload of the {kind} job cannot be read: {bad}"
        ) from None


def subject(
    context: JobContext, job: Job, read: Callable[[dict[str, Any]], P]
) -> tuple[Dataset, P]:
    """Return the dataset of a job, and its payload. Raises `MalformedJob`."""
    payload = payload_of(job, read)
    return context.stores.dataset(DatasetRef.parse(str(job.spec.dataset))), payload


def poll(context: JobContext, job: Job) -> dict[str, Any]:
    """Poll a source; the job's submission is the time of all its blocks."""
    dataset, payload = subject(context, job, poll_job.payload_of)
    context.worker.job_progress.phase("fetch")
    receipt = run_poll(
        dataset,
        payload,
        context.worker,
        now=job.submitted_at,
        repeated=job.attempt > 1,
        secrets=partial(context.secrets, dataset.entry),
    )
    return poll_job.to_json(receipt)


def compact(context: JobContext, job: Job) -> dict[str, Any]:
    """Merge slices of a root into fewer ones; a repeated job finds nothing left to do."""
    dataset, payload = subject(context, job, compact_job.payload_of)
    receipt = run_compaction(
        dataset,
        payload,
        context.stores,
        context.worker.scratch,
        attempts=context.worker.commit_attempts,
    )
    return history_receipt.to_json(receipt)


def verify(context: JobContext, job: Job) -> dict[str, Any]:
    """Verify a dataset, replaying its executions; or hash received rows, or validate pushed
    blocks."""
    dataset, payload = subject(context, job, verify_job.payload_of)
    if payload.gate is not None:
        check = context.worker.job_progress.check
        answer = hash_rows(context.stores, dataset, payload, payload.gate, check)
        return verify_job.to_json(answer)
    run = run_candidate if payload.candidate is not None else run_verification
    answer = run(context.stores, dataset, payload, context.worker, now=context.stores.clock())
    return verify_job.to_json(answer)


def transform(context: JobContext, job: Job) -> dict[str, Any]:
    """Compute new results of a derivative. A job that takes long submits another one for the rest,
    which waits behind jobs of other datasets."""
    dataset, payload = subject(context, job, transform_job.payload_of)
    receipt = run_transform(
        context.stores,
        dataset,
        payload,
        context.worker,
        now=job.submitted_at,
        repeated=job.attempt > 1,
    )
    if receipt.has_more:
        context.stores.jobs.submit(transform_job.job_of(dataset.id, payload))
    return transform_job.to_json(receipt)


def heal(context: JobContext, job: Job) -> dict[str, Any]:
    """Recompute a damaged object of a derivative."""
    key = payload_of(job, lambda _: heal_job.key_of(job.spec))
    dataset = context.stores.dataset(DatasetRef(id=key.dataset))
    return heal_job.to_json(run_heal(context.stores, dataset, key, context.worker))


def publish(context: JobContext, job: Job) -> dict[str, Any]:
    """Update a publication to the dataset's head, or withdraw it."""
    dataset, payload = subject(context, job, publish_job.payload_of)
    return publish_job.to_json(run_publication(context.stores, dataset, payload, context.worker))


def query(context: JobContext, job: Job) -> dict[str, Any]:
    """Run a reader's SQL query on Spark."""
    payload = _read_payload(job, query_job.payload_of)
    return query_job.to_json(run_query(context.stores, payload, job.id, context.worker))


def why(context: JobContext, job: Job) -> dict[str, Any]:
    """Answer why a row of a dataset is there."""
    payload = _read_payload(job, why_job.payload_of)
    return why_job.to_json(run_why(context.stores, payload, context.worker))


def check(context: JobContext, job: Job) -> dict[str, Any]:
    """Check a transform, and return the schema of its result; commit nothing."""
    payload = _read_payload(job, transform_job.check_of)
    receipt = run_check(context.stores, payload, context.worker, now=job.submitted_at)
    return transform_job.to_json(receipt)


def check_source(context: JobContext, job: Job) -> dict[str, Any]:
    """Check a source, and return the schema of its rows; commit nothing."""
    payload = _read_payload(job, transform_job.check_source_of)
    return transform_job.to_json(run_source_check(payload, context.worker))


def trial(context: JobContext, job: Job) -> dict[str, Any]:
    """Compute the content of datasets that manifests describe; commit nothing."""
    payload = _read_payload(job, trial_job.payload_of)
    body, worker = job.spec.body, context.worker
    return trial_job.to_json(run_trial(context.stores, payload, body, worker, now=job.submitted_at))


Handler = Callable[[JobContext, Job], dict[str, Any]]
HANDLERS: Mapping[str, Handler] = {
    poll_job.KIND: poll,
    compact_job.KIND: compact,
    verify_job.KIND: verify,
    transform_job.KIND: transform,
    transform_job.CHECK: check,
    transform_job.CHECK_SOURCE: check_source,
    trial_job.KIND: trial,
    heal_job.KIND: heal,
    publish_job.KIND: publish,
    query_job.KIND: query,
    why_job.KIND: why,
}
"""Handlers by kind of job. Posts are not included, since they run in groups."""


def handler_of_feature(kind: str) -> Handler:
    """Return the function of an installed feature for a kind of job; none replaces one of ours."""
    places = (one.jobs[kind] for one in installed() if kind in one.jobs)
    handler: Handler = loaded(next(places))
    return handler
