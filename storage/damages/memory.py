"""Damaged objects in memory: gone with the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from protocol.instant import Instant

from ..values import ObjectKey
from .values import Damage


class MemoryDamageLog:
    """`DamageLog` in a dictionary."""

    def __init__(self) -> None:
        self._rows: dict[ObjectKey, Damage] = {}
        self._lock = threading.Lock()

    def note(self, damage: Damage) -> bool:
        with self._lock:
            known = self._rows.get(damage.key)
            if known is not None and known.is_open:
                return False
            self._rows[damage.key] = damage
            return True

    def find(self, key: ObjectKey) -> Damage | None:
        return self._rows.get(key)

    def open(self, *, limit: int = 100) -> Sequence[Damage]:
        with self._lock:
            found = [each for each in self._rows.values() if each.is_open]
        return sorted(found, key=lambda each: each.found_at)[:limit]

    def count(self) -> int:
        with self._lock:
            return sum(each.is_open for each in self._rows.values())

    def tried(self, key: ObjectKey, *, next_at: Instant, hopeless: str | None = None) -> None:
        with self._lock:
            known = self._rows.get(key)
            if known is not None:
                self._rows[key] = replace(
                    known, tries=known.tries + 1, next_at=next_at, hopeless=hopeless
                )

    def hasten(self, *, at: Instant) -> None:
        with self._lock:
            for key, known in list(self._rows.items()):
                if known.is_open:
                    self._rows[key] = replace(known, next_at=at, hopeless=None)

    def healed(self, key: ObjectKey, *, at: Instant, source: str) -> bool:
        with self._lock:
            known = self._rows.get(key)
            if known is None or not known.is_open:
                return False
            self._rows[key] = replace(known, healed_at=at, healed_from=source)
            return True

    def prune(self, *, before: Instant) -> int:
        with self._lock:
            gone = [
                key
                for key, each in self._rows.items()
                if each.healed_at is not None and each.healed_at < before
            ]
            for key in gone:
                del self._rows[key]
            return len(gone)
