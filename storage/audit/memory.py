"""The audit log in memory: for tests and throw-away nodes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from protocol.instant import Instant

from .values import Deed, DeedFilter

EVERYTHING = DeedFilter()


class MemoryAuditLog:
    """`AuditLog` in a list."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deeds: list[Deed] = []
        self._last = 0

    def record(self, deeds: Sequence[Deed]) -> None:
        with self._lock:
            for deed in deeds:
                self._last += 1
                self._deeds.append(replace(deed, number=self._last))

    def page(
        self, which: DeedFilter = EVERYTHING, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Deed]:
        with self._lock:
            found = [
                deed
                for deed in reversed(self._deeds)
                if (before is None or deed.number < before) and _matches(deed, which)
            ]
        return found[:limit]

    def prune(self, *, before: Instant) -> int:
        with self._lock:
            kept = [deed for deed in self._deeds if deed.at >= before]
            removed = len(self._deeds) - len(kept)
            self._deeds = kept
        return removed


def _matches(deed: Deed, which: DeedFilter) -> bool:
    wanted = (("actor", which.actor), ("action", which.action), ("dataset", which.dataset))
    return (
        all(value is None or getattr(deed, name) == value for name, value in wanted)
        and (which.since is None or deed.at >= which.since)
        and (which.until is None or deed.at < which.until)
    )
