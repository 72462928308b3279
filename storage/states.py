"""A bounded memory of folded chain states, shared by all datasets of a process.

A state is a pure function of (dataset, head), so an entry never goes stale.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from protocol.chain.state import ChainState
from protocol.identity import DatasetId
from protocol.multihash import Multihash

MAX_STATES = 512


class StateCache:
    """Least recently used states go first."""

    def __init__(self, capacity: int = MAX_STATES) -> None:
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

    def __len__(self) -> int:
        return len(self._states)
