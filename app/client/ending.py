"""When waiting for news ends: after a silence that is long enough, or when somebody says so."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx


class Ending:
    """Shared by the thread that waits and any that stops it."""

    def __init__(self, patience_s: float | None = None) -> None:
        """`patience_s`: seconds without news after which waiting ends; None: it never does."""
        self._patience_s = patience_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.renew()

    def renew(self) -> None:
        """There was news: the patience begins anew."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """End the waiting now, also that of another thread."""
        with self._lock:
            self._stopped.set()
            if self._socket is not None:
                _shut(self._socket)

    def is_stopped(self) -> bool:
        """Whether somebody said so."""
        return self._stopped.is_set()

    def is_over(self) -> bool:
        """Whether to wait no longer."""
        return self.is_stopped() or self.left_s == 0

    @property
    def left_s(self) -> float | None:
        """Seconds of patience that are left."""
        if self._patience_s is None:
            return None
        return max(0.0, self._since + self._patience_s - time.monotonic())

    def wait(self, seconds: float) -> None:
        """Sleep so long, or until the end."""
        self._stopped.wait(self.at_most(seconds))

    def at_most(self, seconds: float) -> float:
        """So long, or until the end."""
        return seconds if self.left_s is None else min(seconds, self.left_s)

    @contextmanager
    def reading(self, response: httpx.Response) -> Iterator[None]:
        """A body is read, which `stop` breaks off."""
        stream = response.extensions.get("network_stream")
        with self._lock:
            self._socket = None if stream is None else stream.get_extra_info("socket")
            if self._socket is not None and self.is_stopped():
                _shut(self._socket)
        try:
            yield
        finally:
            with self._lock:
                self._socket = None


def _shut(connection: socket.socket) -> None:
    """Wakes up a thread that reads from it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side has closed it
