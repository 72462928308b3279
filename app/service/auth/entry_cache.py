"""Registry entries remembered for a second: reading a chain asks for one a thousand times.

Only what was found is remembered, and only reading uses it, so a dataset that is renamed,
hidden or forgotten is gone for readers a second later at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from odf_node.protocol.identity import DatasetAlias, DatasetRef
from odf_node.storage.stores.ports import DatasetEntries
from odf_node.storage.stores.ports.values import DatasetEntry

KEPT_S = 1.0
MAX_ENTRIES = 4096


class EntryMemory:
    """Entries by alias. `now` is a monotonic clock in seconds."""

    def __init__(
        self, registry: DatasetEntries, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry, self._now = registry, now
        self._known: dict[str, tuple[float, DatasetEntry]] = {}
        self._lock = threading.Lock()

    def recall(self, folded: str) -> DatasetEntry | None:
        """The entry of a folded alias if it was found within the last second; nobody is asked."""
        until, entry = self._known.get(folded, (0.0, None))
        return entry if self._now() < until else None

    def forget(self, alias: DatasetAlias) -> None:
        """The entry has changed; the next one who asks gets it as it is now."""
        with self._lock:
            self._known.pop(alias.folded, None)

    def find(self, alias: DatasetAlias) -> DatasetEntry | None:
        """The entry as it is now, or was a second ago."""
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
