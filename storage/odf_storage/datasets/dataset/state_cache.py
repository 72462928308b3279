"""A bounded cache of folded chain states, shared by all datasets of a process.

A state is a pure function of (dataset, head), so an entry never becomes stale. States that took
long to fold are also given to a keeper, which stores them longer than the process lives.

The chain of a dataset as the index stores it: blocks along a path, and the state they add up to.

The caller that makes a `CachedChain` chooses the reads it uses, and so which reads
share a transaction.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from odf_protocol.chain.rules import fold_received as fold
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash

from ...runtime.clock import without_garbage_collection
from ...stores.index.stored_block import decode_stored
from ...stores.ports import BlockIndex
from ...stores.ports.errors import BlockNotFound

if TYPE_CHECKING:
    from ...stores.index.sql import Heads
    from ...stores.index.sql_blocks import StateKeeper

MAX_STATES = 512
KEEP_FROM = 1000
"""Number of folded blocks from which a state is worth storing."""


class StateCache:
    """A cache that drops the least recently used states first."""

    def __init__(self, capacity: int = MAX_STATES, *, keeper: StateKeeper | None = None) -> None:
        self._keeper = keeper
        self._states: OrderedDict[tuple[DatasetId, Multihash], ChainState] = OrderedDict()
        self._capacity = capacity
        self._lock = threading.Lock()

    def find(self, dataset: DatasetId, head: Multihash) -> ChainState | None:
        with self._lock:
            state = self._states.get((dataset, head))
            if state is not None:
                self._states.move_to_end((dataset, head))
            return state

    def put(self, dataset: DatasetId, head: Multihash, state: ChainState) -> None:
        with self._lock:
            self._states[dataset, head] = state
            self._states.move_to_end((dataset, head))
            while len(self._states) > self._capacity:
                self._states.popitem(last=False)

    def kept(self, dataset: DatasetId) -> ChainState | None:
        """Return the stored state of a dataset, whichever head it has."""
        return None if self._keeper is None else self._keeper.load(dataset)

    def keep(self, dataset: DatasetId, state: ChainState, *, folded: int) -> None:
        """Cache a state and, if many blocks were folded for it, store it."""
        if state.head is None:
            return
        self.put(dataset, state.head, state)
        if self._keeper is not None and folded >= KEEP_FROM:
            self._keeper.save(dataset, state)

    def __len__(self) -> int:
        return len(self._states)


class StatesOfReads:
    """States for a transaction that only reads. States to be stored wait until it has ended."""

    def __init__(self, states: StateCache, load: Callable[[DatasetId], ChainState | None]) -> None:
        self._states, self._load = states, load
        self._waiting: list[tuple[DatasetId, ChainState, int]] = []

    def find(self, dataset: DatasetId, head: Multihash) -> ChainState | None:
        return self._states.find(dataset, head)

    def kept(self, dataset: DatasetId) -> ChainState | None:
        return self._load(dataset)

    def keep(self, dataset: DatasetId, state: ChainState, *, folded: int) -> None:
        if state.head is not None:
            self._states.put(dataset, state.head, state)
            self._waiting.append((dataset, state, folded))

    def keep_waiting(self) -> None:
        """Store the states that wait. Call this after the transaction."""
        while self._waiting:
            dataset, state, folded = self._waiting.pop()
            self._states.keep(dataset, state, folded=folded)


PAGE = 1000
"""Limit of blocks in memory at a time when a chain is folded."""
NEAR = 8
"""Number of blocks between the newest one and that of a known state up to which one page has all of
them; beyond, the path is queried."""


class CachedChain:
    """One chain. `states` is the cache of the states that were folded from it."""

    def __init__(
        self,
        dataset: DatasetId,
        refs: Heads,
        blocks: BlockIndex,
        states: StateCache | StatesOfReads,
    ) -> None:
        self._dataset = dataset
        self._refs, self._blocks, self._states = refs, blocks, states

    def state(self, head: Multihash | None = None) -> ChainState:
        """Return the state of the chain as of `head`, by default the newest block. Raises
        `BlockNotFound`."""
        target = head or self._refs.head(self._dataset)
        if (whole := self._states.find(self._dataset, target)) is not None:
            return whole
        if (whole := self._nearly_known(target)) is not None:
            return whole
        state, path = EMPTY, list[Multihash]()
        kept = self._states.kept(self._dataset)
        for block in self._blocks.lineage(self._dataset, target):
            known = self._states.find(self._dataset, block)
            if known is None and kept is not None and kept.head == block:
                known = kept
            if known is not None:
                state = known
                break
            path.append(block)
        if state is EMPTY and not path:
            raise BlockNotFound(target)
        with without_garbage_collection():
            for page in self.along(path):
                state = fold(page, state)
        self._states.keep(self._dataset, state, folded=len(path))
        return state

    def _nearly_known(self, target: Multihash) -> ChainState | None:
        """Return the state if it is known as of one of the last blocks before `target`, else None.
        This saves callers that follow a moving head the query for the whole path."""
        rows = self._blocks.raw(self._dataset, target, limit=NEAR + 2)
        for count, (block, _) in enumerate(rows[1:], 1):
            known = self._states.find(self._dataset, block)
            if known is not None:  # no older block is decoded: it may be damaged
                state = fold([decode_stored(*row) for row in reversed(rows[:count])], known)
                self._states.keep(self._dataset, state, folded=count)
                return state
        return None

    def along(self, path: Sequence[Multihash]) -> Iterator[list[HashedBlock]]:
        """Yield the blocks of a `path`, oldest first, with at most `PAGE` of them in memory at a
        time."""
        for start, count in page_starts(path):
            yield list(reversed(self._blocks.ancestors(self._dataset, start, limit=count)))


def page_starts(newest_first: Sequence[Multihash]) -> Iterator[tuple[Multihash, int]]:
    """Yield the newest block and the length of each page of a path, oldest page first."""
    for end in range(len(newest_first), 0, -PAGE):
        count = min(PAGE, end)
        yield newest_first[end - count], count
