"""The stores of this node as the target of a pull."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO

from odf_protocol.chain.rules import fold_received
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import Seed
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.dependencies import remember_declared
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, ObjectKind

from ...client.receive import SeedOverwrite, begins_anew
from ..definitions.authors import InForce, note_author
from ..transfer.received import Receiving, commit_received


class NodeTarget:
    """A `Target` of the client: one dataset of this node. The job holds the lock of the dataset."""

    def __init__(self, receiving: Receiving, entry: DatasetEntry) -> None:
        self._receiving, self._stores, self._entry = receiving, receiving.stores, entry
        self._dataset = self._stores.dataset(DatasetRef(id=entry.id))

    @property
    def name(self) -> str:
        return str(self._entry.alias)

    def find_head(self) -> Multihash | None:
        return self._dataset.head()

    def head(self) -> Multihash:
        return self._dataset.head()

    def block_bytes(self, block: Multihash) -> bytes:
        return self._dataset.block(block).raw

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._dataset.open_object(kind, object_hash)

    def holds(self, kind: ObjectKind, object_hash: Multihash, size: int) -> bool:
        """Return whether the object is stored. Its hash was checked when it was stored. Renew it,
        so that it is not swept before the commit."""
        found = self._stores.objects.renew(ObjectKey(self._entry.id, kind, object_hash))
        return found is not None and found.size == size

    def put(self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]) -> object:
        return self._stores.objects.put(ObjectKey(self._entry.id, kind, object_hash), chunks)

    def check(
        self, new: Sequence[HashedBlock], *, old: Multihash | None, force: bool = False
    ) -> None:
        if not (force and begins_anew(new)):
            self._dataset.check(new, expected=old or self.head())
            return
        seed = new[0].event
        own = (self._entry.id, self._entry.kind)
        if not isinstance(seed, Seed) or (seed.dataset_id, seed.dataset_kind) != own:
            raise SeedOverwrite
        fold_received(new)

    def move_head(self, *, expected: Multihash | None, new: list[HashedBlock]) -> None:
        head = expected or self.head()
        before, first = InForce.of(self._dataset.state(head)), new[0]
        base = InForce() if first.prev is None else InForce.of(self._dataset.state(first.prev))
        note_author(self._stores, self._entry, before, base.after(new))
        commit_received(self._receiving, self._dataset, new, expected=head, force=begins_anew(new))
        state = self._dataset.state(new[-1].hash)
        remember_declared(self._stores.registry, self._entry.id, state)

    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()
