"""A thread of the service that looks again and again for what is due, until it is stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from odf_node.storage.stores.wakeups.port import Topic, WakeUp

STOP_S = 5.0
SHORTEST_PAUSE_S, LONGEST_REST_S = 0.05, 0.5
RESTS = 19
"""However many wake-ups come: a look holds up writers, on PostgreSQL of the log, on SQLite all.
So it takes a twentieth of the time at most, unless it is slow."""
_log = logging.getLogger("odf.follow")


class Follower:
    """Looks whenever a job has ended, or what else it follows has happened, and now and then by
    itself: no wake-up comes for everything.

    `look` gives the seconds to the next look; after one that failed it is `poll_s`.
    """

    def __init__(
        self,
        name: str,
        wake_up: WakeUp,
        look: Callable[[], float],
        *,
        poll_s: float,
        topic: Topic = Topic.ENDED,
    ) -> None:
        self._wake_up, self._look, self._poll_s, self._topic = wake_up, look, poll_s, topic
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
                except Exception:  # a busy or restarting database: the next look may get through
                    _log.exception("%s did not look", self._thread.name)
                    pause_s = self._poll_s
                rest_s = min(LONGEST_REST_S, RESTS * (time.monotonic() - began))
                wake_up.wait(pause_s)
                self._stop.wait(max(SHORTEST_PAUSE_S, rest_s))
