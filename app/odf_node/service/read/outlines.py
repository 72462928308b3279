"""A cache of outlines: summaries of a dataset's chain as of one block, which never change.

Reads, lookups and queries begin with an outline; if it is cached, they need not read the chain.

Answers that are made beside the pages that show them, since these cannot wait for long.

Whoever asks next gets the answer, or waits for the same one: it is made once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash
from odf_storage.datasets.kartothek.index_place import IndexRef, index_state, index_store
from odf_storage.datasets.read.kept_outline import KeptOutline
from odf_storage.datasets.read.view import Outline, outline_of, require_in_history

if TYPE_CHECKING:
    from odf_storage.datasets.dataset.dataset import Dataset
    from odf_storage.stores.ports import KeyedStore


REMEMBERED_SLICES = 200_000
"""Slices, of all datasets in sum, of which the service remembers where they stand in their chain,
so that reads, look-ups and queries need not read the chain again."""

Key = tuple[DatasetId, Multihash, Multihash | None]
"""Dataset, block as of which it is read, and last block in its index."""


class OutlineMemory:
    """The most recently used outlines, up to a total number of slices."""

    def __init__(self, max_slices: int) -> None:
        self._max_slices = max_slices
        self._known: OrderedDict[Key, Outline] = OrderedDict()
        self._slices = 0
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Outline]) -> Outline:
        """Return the outline, made by `make` if it is not cached. Two threads may both make it."""
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
    """Returns outlines of the node's datasets, with the node's indices of them."""

    projections: KeyedStore
    memory: OutlineMemory

    def of(
        self, dataset: Dataset, at: Multihash | None = None, *, indexed: bool = True
    ) -> tuple[Outline, IndexRef | None]:
        """Return the outline as of a block (default: the head), and the node's index of the dataset
        if it is requested (`indexed`) and was built from the same history.

        For a block other than the head we check each time that the chain has it, since a rewritten
        history may no longer have it. Raises `BlockNotFound`.
        """
        state = (
            index_state(index_store(self.projections, dataset.id), dataset.id) if indexed else None
        )
        mark = None if state is None else state.head
        head = dataset.head()
        if at is None or at == head:
            kept = KeptOutline(self.projections, dataset.id)
            outline = self.memory.get(
                (dataset.id, head, mark), lambda: outline_of(dataset, head, mark=mark, kept=kept)
            )
        else:
            require_in_history(dataset, at)
            outline = outline_of(dataset, at, mark=mark)
        if state is None or not outline.is_marked:
            return outline, None
        return outline, IndexRef(
            files=state.files, labels=state.labels, sequences=outline.sequences
        )


MANY_SLICES = 1000
"""Number of slices up to which a page waits for what they say."""
PATIENCE_S = 0.2
T = TypeVar("T")


@dataclass(frozen=True)
class Beside:
    """Makes answers by key. Use it in the thread of the event loop."""

    making: dict[Hashable, asyncio.Task[Any]] = field(default_factory=dict)

    async def get(
        self,
        key: Hashable,
        make: Callable[[], Coroutine[Any, Any, T]],
        *,
        slices: int,
        rest_s: float = 0.0,
    ) -> T | None:
        """Return the answer that `make` makes, which reads so many slices; None if they are many
        and it is not made soon. With a rest, that of many slices begins only so much later, when
        the page is there. Raises what `make` raises."""
        is_soon = slices <= MANY_SLICES
        task = self.making.get(key)
        if task is None:
            task = asyncio.create_task(_after(0.0 if is_soon else rest_s, make))
            self.making[key] = task
            task.add_done_callback(lambda done: self._made(key, done))
        await asyncio.wait({task}, timeout=None if is_soon else 0.0 if rest_s else PATIENCE_S)
        return task.result() if task.done() else None

    def _made(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        self.making.pop(key, None)
        if not done.cancelled():
            done.exception()  # it is seen here if nobody waits for it any more


async def _after(seconds: float, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    await asyncio.sleep(seconds)
    return await make()
