"""Accept pushed executions only after a worker of this node has reproduced their result.

This is a policy of the node (`validate_pushed_derivatives`). The node stores the blocks, but the
head does not reach them yet; a worker validates them and moves the head. The push waits
meanwhile: its peer sees a slow commit. If the wait ends before the work does, the push fails,
the work continues, and a later push finds the dataset up to date.

Commit blocks that another node wrote, after they have passed the gate.

If there are too many rows to hash while the sender waits, we mark the dataset as unverified
before its head moves, and a job hashes the rows afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from secrets import token_hex

from msgspec.structs import replace

from odf_protocol.errors import Conflict
from odf_protocol.metadata.events import DatasetKind, ExecuteTransform, HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset, InvalidInterval, put_blocks
from odf_storage.datasets.dataset.engines import noted_as_received
from odf_storage.datasets.gate.gate import SliceGate
from odf_storage.datasets.job_payloads import verify_job
from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.verify.pending import Unverified, read_unverified, write_unverified
from odf_storage.runtime.clock import Clock
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports import Objects
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
    dataset.judge(blocks, None if force else expected, gate=admission.gate.hold)
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


@dataclass(frozen=True)
class Receiving:
    """The stores, the gate and the clock that a commit of received blocks needs."""

    stores: Stores
    gate: SliceGate
    clock: Clock


def commit_received(
    receiving: Receiving,
    dataset: Dataset,
    blocks: Sequence[HashedBlock],
    *,
    expected: Multihash,
    force: bool,
) -> None:
    """Commit blocks that another node wrote. Raises the same errors as `Dataset.commit`."""
    claims = dataset.claims(blocks, None if force else expected)
    with noted_as_received(receiving.stores, dataset, blocks), ExitStack() as marked:
        if not receiving.gate.hashes_rows(claims):
            marked.enter_context(_marked(receiving, dataset, blocks))
        dataset.commit(blocks, expected=expected, force=force, gate=receiving.gate.hold)


@contextmanager
def _marked(
    receiving: Receiving, dataset: Dataset, blocks: Sequence[HashedBlock]
) -> Iterator[None]:
    """Mark the blocks as unverified. Then a job hashes their rows, if they are in the chain; else
    the mark is taken back.

    A commit may fail after it moved the head, and others may mark the dataset meanwhile.
    """
    objects, new = receiving.stores.objects, blocks[-1].hash
    with receiving.stores.locks.hold(dataset.id):
        before = read_unverified(objects, dataset.id)
        note = Unverified(
            after=_start(dataset, blocks[0].prev, before),
            upto=str(new),
            since=str(receiving.clock()) if before is None else before.since,
            problem=None if before is None else before.problem,
            by=token_hex(8),
        )
        write_unverified(objects, dataset.id, note)
    try:
        yield
    finally:
        left = note if _has(dataset, new) else _take_back(receiving.stores, dataset, note, before)
        if left is not None:
            _have_rows_hashed(receiving, dataset, left)


def _start(dataset: Dataset, base: Multihash | None, before: Unverified | None) -> str | None:
    """Return the block after which rows are unverified, if new blocks follow `base`."""
    if before is None or base is None:
        return _text(base)
    if before.after is None or _has(dataset, Multihash.parse(before.after), upto=base):
        return before.after
    return _text(base)


def _take_back(
    stores: Stores, dataset: Dataset, note: Unverified, before: Unverified | None
) -> Unverified | None:
    """Restore the mark `before`, unless another push has marked the dataset since. Return the
    restored mark: its job may have ended meanwhile, so that it needs a new one."""
    with stores.locks.hold(dataset.id):
        now = read_unverified(stores.objects, dataset.id)
        if now is None or now.by != note.by:
            return None
        left = None if before is None else replace(before, problem=now.problem)
        write_unverified(stores.objects, dataset.id, left)
    return left


def _has(dataset: Dataset, block: Multihash, *, upto: Multihash | None = None) -> bool:
    """Return whether the block is in the chain up to the head, or up to `upto`."""
    try:
        dataset.path(after=block, upto=upto)
    except InvalidInterval:
        return False
    return True


def _have_rows_hashed(receiving: Receiving, dataset: Dataset, note: Unverified) -> None:
    payload = VerifyPayload(after=note.after, upto=note.upto, gate=receiving.gate.limits)
    asked = verify_job.to_json(payload)
    key = f"{verify_job.KIND}:{dataset.id}:rows:{note.after}:{note.upto}"
    receiving.stores.jobs.submit(JobSpec(verify_job.KIND, dataset.id, asked, dedup_key=key))


def _text(block: Multihash | None) -> str | None:
    return None if block is None else str(block)
