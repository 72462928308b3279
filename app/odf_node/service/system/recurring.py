"""Work of a node that recurs: a thread that tries it when it is due, and can be stopped in it."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from odf_protocol.instant import NANOS
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import Clock

from ..processes.follower import STOP_S, Stopping

_log = logging.getLogger("odf.node")
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
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                rest_s = self.look()
            except Exception:
                _log.exception("%s did not work", self._thread.name)
                rest_s = RETRY_S
            self._stopping.wait(min(rest_s, threading.TIMEOUT_MAX))

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
