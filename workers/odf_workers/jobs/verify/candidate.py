"""Pushed blocks, which wait to be validated before the head moves onto them.

They are stored as objects, so readers do not see them as part of the dataset. An overlay over the
index presents them to replays as a dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES, decode_block
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import HashedBlock, SetDataSchema
from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import noted_as_received
from odf_storage.datasets.dataset.state_cache import StateCache
from odf_storage.datasets.job_payloads.verify_job import VerifyAnswer, VerifyPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.rewrite.compact import remember_inputs
from odf_storage.datasets.verify.run import EVERYTHING, DatasetSource, Interval
from odf_storage.stores.ports import BlockIndex
from odf_storage.stores.ports.errors import RefConflict
from odf_storage.stores.ports.values import ObjectKind

from ..work.context import WorkerContext
from .run import Subject, described, note, verify_dataset


class OverlaidBlocks:
    """A `BlockIndex` that adds some blocks to a dataset."""

    def __init__(self, base: BlockIndex, dataset: DatasetId, blocks: Sequence[HashedBlock]) -> None:
        self._base, self._dataset = base, dataset
        self._more = {block.hash: block for block in blocks}

    def find(self, dataset: DatasetId, block: Multihash) -> HashedBlock | None:
        found = self._more.get(block) if dataset == self._dataset else None
        return found or self._base.find(dataset, block)

    def ancestors(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[HashedBlock]:
        found: list[HashedBlock] = []
        following: Multihash | None = start
        while following is not None and len(found) < limit:
            block = self._more.get(following) if dataset == self._dataset else None
            if block is None:
                rest = limit - len(found)
                found += self._base.ancestors(dataset, following, down_to=down_to, limit=rest)
                break
            if block.sequence_number < down_to:
                break
            found.append(block)
            following = block.prev
        return found

    def raw(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[tuple[Multihash, bytes]]:
        found = self.ancestors(dataset, start, down_to=down_to, limit=limit)
        return [(block.hash, block.raw) for block in found]

    def lineage(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0
    ) -> Iterator[Multihash]:
        following: Multihash | None = start
        while following is not None:
            block = self._more.get(following) if dataset == self._dataset else None
            if block is None:
                yield from self._base.lineage(dataset, following, down_to=down_to)
                return
            if block.sequence_number < down_to:
                return
            yield following
            following = block.prev

    def owner(self, block: Multihash) -> DatasetId | None:
        return self._dataset if block in self._more else self._base.owner(block)

    def schemas(self, dataset: DatasetId) -> Iterator[HashedBlock]:
        yield from self._base.schemas(dataset)
        more = self._more.values() if dataset == self._dataset else ()
        yield from (block for block in more if isinstance(block.event, SetDataSchema))

    def count(self, dataset: DatasetId) -> int:
        more = len(self._more) if dataset == self._dataset else 0
        return self._base.count(dataset) + more


class _CandidateSource(DatasetSource):
    """A dataset as it would be if the candidate were its head."""

    def __init__(self, dataset: Dataset, head: Multihash) -> None:
        super().__init__(dataset)
        self._head = head

    def head(self) -> Multihash:
        return self._head


def run_candidate(
    stores: Stores,
    dataset: Dataset,
    payload: VerifyPayload,
    context: WorkerContext,
    *,
    now: Instant,
) -> VerifyAnswer:
    """Validate the candidate and make it the head.

    Raises:
        NotValidated: it is invalid, or this node cannot validate it; the first reason is named.
        RefConflict: the head was moved meanwhile. ChainRuleBroken, ObjectMissing, …
    """
    if payload.candidate is None or payload.expected is None:
        raise BadInput("a candidate is validated against the head it was pushed onto")
    head, expected = Multihash.parse(payload.candidate), Multihash.parse(payload.expected)
    present = dataset.head()
    if present == head:  # an earlier attempt succeeded
        return VerifyAnswer(ok=True, head=str(head), datasets=())
    if present != expected and not payload.force:
        raise RefConflict(expected, present)
    blocks = _pending(dataset, head)
    if not blocks:  # back to an earlier head; all blocks up to it were accepted before
        dataset.commit([dataset.block(head)], expected=expected, force=payload.force)
        remember_inputs(stores, dataset)
        return VerifyAnswer(ok=True, head=str(head), datasets=())
    with noted_as_received(stores, dataset, blocks):
        return _let_in(stores, dataset, payload, context, blocks, now=now)


def _let_in(
    stores: Stores,
    dataset: Dataset,
    payload: VerifyPayload,
    context: WorkerContext,
    blocks: Sequence[HashedBlock],
    *,
    now: Instant,
) -> VerifyAnswer:
    head, expected = blocks[-1].hash, Multihash.parse(str(payload.expected))
    overlaid = replace(
        stores,
        blocks=OverlaidBlocks(stores.blocks, dataset.id, blocks),
        states=StateCache(),
    )
    candidate = Dataset(dataset.entry, overlaid)
    subject = Subject(
        dataset=candidate,
        source=_CandidateSource(dataset, head),
        interval=Interval(after=blocks[0].prev),
    )
    found = verify_dataset(overlaid, subject, payload, context)
    first = next(iter((*found.report.problems, *found.replays.notes)), None)
    if first is not None:
        raise Conflict(
            "NotValidated",
            f"block {first.sequence_number} was not validated: {first.kind}: {first.message}",
            kind=first.kind,
            block=first.block,
            sequence_number=first.sequence_number,
        )
    dataset.commit(blocks, expected=expected, force=payload.force)
    remember_inputs(stores, dataset)
    note(stores, replace(subject, interval=EVERYTHING), found, payload, now=now)
    return VerifyAnswer(ok=True, head=str(head), datasets=(described(dataset, found),))


def _pending(dataset: Dataset, head: Multihash) -> list[HashedBlock]:
    """Return the candidate's blocks that are not in the present chain, oldest first.

    Raises:
        ObjectNotFound: a block was not put.
    """
    present = set(dataset.path())
    newest_first: list[HashedBlock] = []
    following: Multihash | None = head
    while following is not None and following not in present:
        with dataset.open_object(ObjectKind.BLOCK, following) as stream:
            newest_first.append(decode_block(stream.read(MAX_BLOCK_BYTES)))
        following = newest_first[-1].prev
    return newest_first[::-1]
