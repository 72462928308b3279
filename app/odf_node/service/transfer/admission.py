"""Accept pushed executions only after a worker of this node has reproduced their result.

This is a policy of the node (`validate_pushed_derivatives`). The node stores the blocks, but the
head does not reach them yet; a worker validates them and moves the head. The push waits
meanwhile: its peer sees a slow commit. If the wait ends before the work does, the push fails,
the work continues, and a later push finds the dataset up to date.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.errors import Conflict
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import DatasetKind, ExecuteTransform
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, put_blocks
from odf_storage.datasets.gate.gate import SliceGate
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.stores.ports import JobQueue, Objects
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import Failed, Job, JobId, JobSpec, Succeeded

from ..jobs.job_watch import FINISHED

VALIDATION_WAIT_S = 600.0
"""Seconds a push waits for its blocks to be validated."""

MAX_REASON_CHARS = 55
"""Limit of a reason in characters: a Close frame has room for 123 bytes, the JSON around the
reason included."""


class PushNotValidated(Conflict):
    """The pushed blocks are not what they claim, or this node cannot validate them."""


class PushBeingValidated(Conflict):
    """A worker is still validating the pushed blocks; it will commit them if they are right."""


@dataclass(frozen=True)
class Admission:
    """Whether and how the node validates pushed executions before their commit."""

    validates: bool
    jobs: JobQueue
    objects: Objects
    gate: SliceGate
    wait_s: float
    poll_s: float


def needs_validation(admission: Admission, dataset: Dataset, blocks: Sequence[HashedBlock]) -> bool:
    """Return whether the node must reproduce the result of these blocks before their commit."""
    return (
        admission.validates
        and dataset.entry.kind is DatasetKind.Derivative
        and any(isinstance(block.event, ExecuteTransform) for block in blocks)
    )


def commit_validated(
    admission: Admission,
    dataset: Dataset,
    blocks: Sequence[HashedBlock],
    *,
    expected: Multihash,
    force: bool,
) -> None:
    """Submit the blocks to a worker and wait until it has moved the head.

    Raises:
        PushNotValidated: the worker did not move the head; the message says why.
        PushBeingValidated: the worker has not finished yet.
        ObjectMissing, SizeMismatch, DataDoesNotMatchMetadata, …: as in a commit.
    """
    dataset.judge(blocks, None if force else expected, gate=admission.gate)
    put_blocks(admission.objects, dataset.id, blocks)
    head = blocks[-1].hash
    payload = VerifyPayload(candidate=str(head), expected=str(expected), force=force)
    job = admission.jobs.submit(
        JobSpec(
            verify_job.KIND,
            dataset.id,
            verify_job.to_json(payload),
            lock=str(dataset.id),
            dedup_key=f"{verify_job.KIND}:{dataset.id}:{head}:{expected}:{force}",
        )
    )
    match _ended(admission, job).outcome:
        case Succeeded():
            return
        case Failed() as failed:
            facts = {**failed.facts, "job": job}
            raise PushNotValidated(_reason(failed)[:MAX_REASON_CHARS], **facts)
        case None:
            raise PushNotValidated("not validated: cancelled", job=job)


def _reason(failed: Failed) -> str:
    """Return in a few words why the blocks were refused; the job has the full report."""
    if failed.error == RefConflict.__name__:
        return "the head was moved by somebody else: push again"
    facts = failed.facts
    if "sequence_number" not in facts or "kind" not in facts:
        return f"not validated: {failed.error}"
    return f"not validated: block {facts['sequence_number']}: {facts['kind']}"


def _ended(admission: Admission, job: JobId) -> Job:
    deadline = time.monotonic() + admission.wait_s
    while (found := admission.jobs.get(job)).status not in FINISHED:
        if time.monotonic() >= deadline:
            raise PushBeingValidated("still being validated: push again later", job=job)
        time.sleep(admission.poll_s)
    return found
