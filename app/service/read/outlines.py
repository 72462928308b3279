"""What the chain of a dataset says as of its head, remembered: it never changes.

Reads, look-ups and queries begin here, so that a warm one need not read the chain again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.multihash import Multihash
from odf_node.storage.datasets.kartothek.index_place import IndexRef, index_state, index_store
from odf_node.storage.datasets.read.view import Outline, outline_of, require_in_history

if TYPE_CHECKING:
    from odf_node.storage.datasets.dataset.dataset import Dataset
    from odf_node.storage.stores.ports import KeyedStore

Key = tuple[DatasetId, Multihash, Multihash | None]
"""A dataset, the block as of which it is read, the block that its index was brought up to."""


class OutlineMemory:
    """Outlines that were asked for last, up to so many slices in sum."""

    def __init__(self, max_slices: int) -> None:
        self._max_slices = max_slices
        self._known: OrderedDict[Key, Outline] = OrderedDict()
        self._slices = 0
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Outline]) -> Outline:
        """The outline, made if it is not known; of several threads each may make it."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        outline = make()
        with self._lock:
            if key not in self._known:
                self._known[key] = outline
                self._slices += _weight(outline)
            while self._slices > self._max_slices and len(self._known) > 1:
                _, oldest = self._known.popitem(last=False)
                self._slices -= _weight(oldest)
        return outline


def _weight(outline: Outline) -> int:
    return len(outline.slices) + 1


@dataclass(frozen=True)
class Outlines:
    """Datasets of this node as their chains say, with the indices that the node has of them."""

    projections: KeyedStore
    memory: OutlineMemory

    def of(
        self, dataset: Dataset, at: Multihash | None = None, *, indexed: bool = True
    ) -> tuple[Outline, IndexRef | None]:
        """A dataset as of a block, by default its head, and the node's own index of it, if that is
        wanted (`indexed`) and was made of the same history.

        Another block than the head is looked for in the chain each time, since a rewritten history
        may have it no longer. Raises `BlockNotFound`.
        """
        state = (
            index_state(index_store(self.projections, dataset.id), dataset.id) if indexed else None
        )
        mark = None if state is None else state.head
        head = dataset.head()
        if at is None or at == head:
            outline = self.memory.get(
                (dataset.id, head, mark), lambda: outline_of(dataset, head, mark=mark)
            )
        else:
            require_in_history(dataset, at)
            outline = outline_of(dataset, at, mark=mark)
        if state is None or not outline.is_marked:
            return outline, None
        return outline, IndexRef(
            files=state.files, labels=state.labels, sequences=outline.sequences
        )
