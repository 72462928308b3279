"""A bounded cache of folded chain states, shared by all datasets of a process.

A state is a pure function of (dataset, head), so an entry never becomes stale. States that took
long to fold are also given to a keeper, which stores them longer than the process lives.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from odf_protocol.chain.state import ChainState
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

MAX_STATES = 512
KEEP_FROM = 1000
"""Number of folded blocks from which a state is worth storing."""


class StateKeeper(Protocol):
    """Stores at most one state of each dataset."""

    def load(self, dataset: DatasetId) -> ChainState | None: ...
    def save(self, dataset: DatasetId, state: ChainState) -> None: ...


class KnownStates(Protocol):
    """The cache of states as a chain uses it."""

    def find(self, dataset: DatasetId, head: Multihash) -> ChainState | None: ...
    def kept(self, dataset: DatasetId) -> ChainState | None:
        """Return the stored state of a dataset, whichever head it has."""

    def keep(self, dataset: DatasetId, state: ChainState, *, folded: int) -> None:
        """Cache a state and, if many blocks were folded for it, store it."""


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
        return None if self._keeper is None else self._keeper.load(dataset)

    def keep(self, dataset: DatasetId, state: ChainState, *, folded: int) -> None:
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
