"""When a wait for news ends: after a period without news, or when another thread stops it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx


class Ending:
    """Shared by the waiting thread and the threads that may stop it."""

    def __init__(self, patience_s: float | None = None) -> None:
        """The wait ends after `patience_s` seconds without news; with None it never does."""
        self._patience_s = patience_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.renew()

    def renew(self) -> None:
        """Restart the period without news."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """End the wait now, also in another thread."""
        with self._lock:
            self._stopped.set()
            if self._socket is not None:
                _shut(self._socket)

    def is_stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped.is_set()

    def is_over(self) -> bool:
        """Return whether the wait has ended."""
        return self.is_stopped() or self.left_s == 0

    @property
    def left_s(self) -> float | None:
        """Seconds until the wait ends without news; None if it never does."""
        if self._patience_s is None:
            return None
        return max(0.0, self._since + self._patience_s - time.monotonic())

    def wait(self, seconds: float) -> None:
        """Sleep for so many seconds, or until the wait ends."""
        self._stopped.wait(self.at_most(seconds))

    def at_most(self, seconds: float) -> float:
        """Return the seconds, or the seconds left if these are fewer."""
        return seconds if self.left_s is None else min(seconds, self.left_s)

    @contextmanager
    def reading(self, response: httpx.Response) -> Iterator[None]:
        """Let `stop` interrupt the read of a body within this context."""
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
    """Wake a thread that reads from the connection."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the peer has already closed it
