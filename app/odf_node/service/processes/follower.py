"""Threads of the service that call a function at wake-ups and at intervals, until stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from odf_storage.stores.wakeups.wakeups import Topic, WakeUp

STOP_S = 5.0
SHORTEST_PAUSE_S, LONGEST_REST_S = 0.05, 0.5
RESTS = 49
"""Factor by which the thread rests longer than a call took, however many wake-ups arrive. A call
blocks writers: of the log on PostgreSQL, all on SQLite. So calls take at most a fiftieth of the
time, unless they are slow."""
_log = logging.getLogger("odf.follow")


class Stopping(Exception):
    """Long work stops early: the service stops, or the lease of its job is lost."""


class Follower:
    """Calls `look` at every wake-up of `topic`, such as the end of a job, and also at intervals,
    because not every event sends a wake-up.

    `look` returns the seconds to the next call. If it fails, the interval is `poll_s`. After a
    slow call, the thread rests for up to `longest_rest_s`; a wake-up after that is heeded at once.
    """

    def __init__(
        self,
        name: str,
        wake_up: WakeUp,
        look: Callable[[], float],
        *,
        poll_s: float,
        topic: Topic = Topic.ENDED,
        least_rest_s: float = SHORTEST_PAUSE_S,
        longest_rest_s: float = LONGEST_REST_S,
    ) -> None:
        self._wake_up, self._look, self._poll_s, self._topic = wake_up, look, poll_s, topic
        self._least_rest_s, self._longest_rest_s = least_rest_s, longest_rest_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._wake_up.send(self._topic)
            self._thread.join(STOP_S)

    def _work(self) -> None:
        with self._wake_up.listen(self._topic) as wake_up:
            while not self._stop.is_set():
                began = time.monotonic()
                try:
                    pause_s = self._look()
                except Exception:  # the database may be busy or restarting: retry later
                    _log.exception("%s did not look", self._thread.name)
                    pause_s = self._poll_s
                looked = time.monotonic()
                rest_s = min(self._longest_rest_s, RESTS * (looked - began))
                wake_up.wait(pause_s)
                rested_s = time.monotonic() - looked
                self._stop.wait(max(0.0, max(self._least_rest_s, rest_s) - rested_s))
