"""Pushed executions that are let in only once they were made again here with the same result.

A policy of the node (`validate_pushed_derivatives`). The blocks are stored where nobody sees
them as a part of the dataset; a worker validates them and moves the head. The push waits: to
the peer this is a commit that takes long. When the wait ends before the work does, the push
fails and the work goes on, and a later push finds the dataset up to date.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from odf_node.protocol.errors import Conflict
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import DatasetKind, ExecuteTransform
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset.dataset import Dataset, put_blocks
from odf_node.storage.datasets.gate.gate import SliceGate
from odf_node.storage.datasets.job_payloads import verify_job
from odf_node.storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_node.storage.stores.ports import JobQueue, Objects
from odf_node.storage.stores.ports.errors import RefConflict
from odf_node.storage.stores.ports.values import Failed, Job, JobId, JobSpec, Succeeded

from ..jobs.job_watch import FINISHED

MAX_REASON_CHARS = 55
"""A Close frame holds 123 bytes, with the message around it."""


class PushNotValidated(Conflict):
    """The pushed blocks are not what they claim, or that cannot be told here."""


class PushBeingValidated(Conflict):
    """The pushed blocks are kept, and get in when a worker has validated them."""


@dataclass(frozen=True)
class Admission:
    """Whether pushed executions are validated before they count, and by what."""

    validates: bool
    jobs: JobQueue
    objects: Objects
    gate: SliceGate
    wait_s: float
    poll_s: float


def needs_validation(admission: Admission, dataset: Dataset, blocks: Sequence[HashedBlock]) -> bool:
    """Whether the node wants these blocks made again before they count."""
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
    """Hand the blocks to a worker and wait until it moved the head.

    Raises:
        PushNotValidated: it did not, and why. PushBeingValidated: it is still at work.
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
    """Why the blocks were not let in, in a few words; the job has the whole of it."""
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
