"""What storage contracts are run with: a clock under control, three ports over one index."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta

from chain_maker import NOON

from odf_protocol.instant import Instant
from odf_storage.stores.index.sql import DatasetRegistry, RefIndex
from odf_storage.stores.ports import BlockIndex


class ManualClock:
    """Stands still, until told otherwise."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> Instant:
        return self.now

    def after(self, time: timedelta) -> Instant:
        return Instant(self.now.ns + int(time / timedelta(microseconds=1)) * 1000)

    def advance(self, time: timedelta) -> None:
        self.now = self.after(time)

    def tick(self) -> None:
        self.now = Instant(self.now.ns + 1)


class TickingClock:
    """A nanosecond later at each look."""

    def __init__(self) -> None:
        self._ns = NOON.ns
        self._lock = threading.Lock()

    def __call__(self) -> Instant:
        with self._lock:
            self._ns += 1
            return Instant(self._ns)


@dataclass(frozen=True)
class Index:
    """Registry, references and blocks of the same datasets."""

    registry: DatasetRegistry
    refs: RefIndex
    blocks: BlockIndex
