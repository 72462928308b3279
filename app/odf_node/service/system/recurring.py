"""Work of a node that recurs: a thread that tries it when it is due, and can be stopped in it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from odf_protocol.instant import NANOS
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock

from ..processes.follower import Follower, Stopping

RETRY_S = 300.0
"""Seconds after a failure, or after another service or a command was found at work."""


class Recurring(ABC):
    """Tries its work again and again, in a thread of its own."""

    def __init__(
        self, name: str, stores: Stores, clock: Clock, every_s: float, *, first_s: float = 0.0
    ) -> None:
        """`first_s` is how long it rests before its first try."""
        self._stores, self._clock, self._every_s = stores, clock, every_s
        self._not_before_ns = clock().ns + int(first_s * NANOS)
        self._stopping = threading.Event()
        self._follower = Follower(name, stores.wake_up, self.look, poll_s=RETRY_S)

    def start(self) -> None:
        self._follower.start()

    def stop(self) -> None:
        self._stopping.set()
        self._follower.stop()

    def look(self) -> float:
        """Do the work if it is time; return the seconds to the next look."""
        rest_s = (self._not_before_ns - self._clock().ns) / NANOS
        if rest_s > 0:
            return min(rest_s, self._every_s)
        rest_s = self._try()
        self._not_before_ns = self._clock().ns + int(rest_s * NANOS)
        return rest_s

    @abstractmethod
    def _try(self) -> float:
        """Do the work if it is due; return the seconds to the next attempt."""

    def _go_on(self, *_: object) -> None:
        """Called within the work. Raises `Stopping`."""
        if self._stopping.is_set():
            raise Stopping
