"""Objects whose bytes were hashed a while ago and that nobody has touched since, by all we can see.

Rot moves neither the time of a file nor an ETag, so that what is remembered is forgotten after
some time, and the next reader hashes again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from odf_node.protocol.multihash import Multihash

from .identity import Identity

REHASH_S = 3600.0
"""Seconds, unless a setting says so."""
MOST = 1 << 16
"""Objects that are remembered, the last ones; a process keeps some 20 MB of them."""


class Hashed:
    """A memory of one process; safe to use from several threads."""

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
        """Whether bytes of this identity were found to hash to `name`, and not too long ago."""
        if identity is None:
            return False
        until = self._known.get((str(name), identity))
        return until is not None and self._clock() < until

    def note(self, name: str | Multihash, identity: Identity | None) -> None:
        """They hash to `name`."""
        if identity is None or self._seconds <= 0:
            return
        with self._lock:
            self._known.pop(key := (str(name), identity), None)
            if len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[key] = self._clock() + self._seconds

    def clear(self) -> None:
        """Nothing is known any more: work begins for which everything is hashed anew."""
        with self._lock:
            self._known.clear()
