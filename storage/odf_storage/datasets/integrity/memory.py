"""A cache of objects that were hashed recently and whose identity has not changed since.

Bit rot changes neither the time of a file nor an ETag, so entries expire after some time, and the
next reader hashes again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from odf_protocol.multihash import Multihash

from .identity import Identity

REHASH_S = 3600.0
"""Default lifetime of an entry in seconds."""
MOST = 1 << 16
"""Limit of objects in the cache; newer ones replace the oldest. They take some 20 MB."""


class Hashed:
    """A cache of one process; safe to use from several threads."""

    def __init__(
        self,
        *,
        seconds: float = REHASH_S,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._known: dict[tuple[str, Identity], float] = {}
        self._lock = threading.Lock()

    def knows(self, name: str | Multihash, identity: Identity | None) -> bool:
        """Return whether bytes of this identity recently hashed to `name`."""
        if identity is None:
            return False
        until = self._known.get((str(name), identity))
        return until is not None and self._clock() < until

    def note(self, name: str | Multihash, identity: Identity | None) -> None:
        """Record that bytes of this identity hash to `name`."""
        if identity is None or self._seconds <= 0:
            return
        with self._lock:
            self._known.pop(key := (str(name), identity), None)
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[key] = self._clock() + self._seconds

    def clear(self) -> None:
        """Forget everything: work begins that has to hash everything anew."""
        with self._lock:
            self._known.clear()
