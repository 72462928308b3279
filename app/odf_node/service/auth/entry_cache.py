"""Cache of registry entries, kept for one second, because a client that reads a chain needs the
same entry a thousand times.

The cache keeps found entries only, and only read requests use it. So if a dataset is renamed,
hidden or deleted, readers notice within a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_storage.stores.ports import DatasetEntries
from odf_storage.stores.ports.values import DatasetEntry

KEPT_S = 1.0
MAX_ENTRIES = 4096


class EntryMemory:
    """A cache of entries by alias. `now` is a monotonic clock in seconds."""

    def __init__(
        self, registry: DatasetEntries, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry, self._now = registry, now
        self._known: dict[str, tuple[float, DatasetEntry]] = {}
        self._lock = threading.Lock()

    def recall(self, folded: str) -> DatasetEntry | None:
        """Return the cached entry of a folded alias, None if there is none. Never read the
        registry."""
        until, entry = self._known.get(folded, (0.0, None))
        return entry if self._now() < until else None

    def forget(self, alias: DatasetAlias) -> None:
        """Drop the entry from the cache, because it has changed."""
        with self._lock:
            self._known.pop(alias.folded, None)

    def find(self, alias: DatasetAlias) -> DatasetEntry | None:
        """Return the entry from the cache or the registry. It may be one second old."""
        key, now = alias.folded, self._now()
        with self._lock:
            until, entry = self._known.get(key, (0.0, None))
        if entry is not None and now < until:
            return entry
        entry = self._registry.find(DatasetRef(alias=alias))
        with self._lock:
            self._known.pop(key, None)
            if entry is not None:
                if len(self._known) >= MAX_ENTRIES:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = (now + KEPT_S, entry)
        return entry
