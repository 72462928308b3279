"""Commit blocks that another node wrote, after they have passed the gate.

If there are too many rows to hash while the sender waits, we mark the dataset as unverified
before its head moves, and a job hashes the rows afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from odf_node.protocol.errors import NodeError
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.dataset.engines import noted_as_received
from odf_node.storage.datasets.gate.gate import SliceGate
from odf_node.storage.datasets.job_payloads import verify_job
from odf_node.storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.datasets.verify.pending import Unverified, read_unverified, write_unverified
from odf_node.storage.runtime.clock import Clock
from odf_node.storage.stores.ports.values import JobSpec


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
    with noted_as_received(receiving.stores.objects, dataset.id, blocks), ExitStack() as marked:
        note = None
        if not receiving.gate.hashes_rows(claims):
            note = marked.enter_context(_marked(receiving, dataset, blocks))
        dataset.commit(blocks, expected=expected, force=force, gate=receiving.gate)
    if note is not None:
        _have_rows_hashed(receiving, dataset, note)


@contextmanager
def _marked(
    receiving: Receiving, dataset: Dataset, blocks: Sequence[HashedBlock]
) -> Iterator[Unverified]:
    """Mark the dataset as unverified; restore the earlier mark if the head does not move."""
    objects = receiving.stores.objects
    with receiving.stores.locks.hold(dataset.id):
        before = read_unverified(objects, dataset.id)
        note = Unverified(
            after=_text(blocks[0].prev) if before is None else before.after,
            upto=str(blocks[-1].hash),
            since=str(receiving.clock()) if before is None else before.since,
            problem=None if before is None else before.problem,
        )
        write_unverified(objects, dataset.id, note)
    try:
        yield note
    except NodeError:
        with receiving.stores.locks.hold(dataset.id):
            write_unverified(objects, dataset.id, before)
        raise


def _have_rows_hashed(receiving: Receiving, dataset: Dataset, note: Unverified) -> None:
    payload = VerifyPayload(after=note.after, upto=note.upto, gate=receiving.gate.limits)
    asked = verify_job.to_json(payload)
    key = f"{verify_job.KIND}:{dataset.id}:rows:{note.after}:{note.upto}"
    receiving.stores.jobs.submit(JobSpec(verify_job.KIND, dataset.id, asked, dedup_key=key))


def _text(block: Multihash | None) -> str | None:
    return None if block is None else str(block)
