"""A thread of the service that has derivatives follow their inputs, until it is told to stop."""

from __future__ import annotations

import logging
import threading
import time

from odf_node.storage.stores.wakeups.port import Topic

from .follow import Following, follow

STOP_S = 5.0
SHORTEST_PAUSE_S, LONGEST_REST_S = 0.05, 0.5
RESTS = 19
"""However many wake-ups come: a look holds up writers, on PostgreSQL of the log, on SQLite all.
So it takes a twentieth of the time at most, unless it is slow."""
_log = logging.getLogger("odf.follow")


class Follower:
    """Looks whenever a job has ended, and now and then by itself: pushes wake nobody."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="follow", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._following.stores.wake_up.send(Topic.ENDED)
            self._thread.join(STOP_S)

    def _work(self) -> None:
        with self._following.stores.wake_up.listen(Topic.ENDED) as wake_up:
            while not self._stop.is_set():
                began = time.monotonic()
                try:
                    pause_s = follow(self._following)
                except Exception:  # a busy or restarting database: the next look may get through
                    _log.exception("derivatives were not looked after")
                    pause_s = self._following.poll_s
                rest_s = min(LONGEST_REST_S, RESTS * (time.monotonic() - began))
                wake_up.wait(pause_s)
                self._stop.wait(max(SHORTEST_PAUSE_S, rest_s))
