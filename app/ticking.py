"""The clock of the service: schedules that are due are started, what is old is cleared away."""

from __future__ import annotations

import logging
import threading

from protocol.instant import NANOS, Instant

from .usecases.schedules import start_due
from .wiring import Node

STOP_S = 5.0
PRUNE_S = 3600.0
_log = logging.getLogger("odf.node")


class Ticker:
    """A thread that looks every `schedule_tick_s` seconds; every service process has one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _work(self) -> None:
        tick_s = self._node.settings.schedule_tick_s
        left = 0.0
        while not self._stop.is_set():
            try:
                start_due(self._node)
                if left <= 0:
                    prune(self._node)
                    left = PRUNE_S
            except Exception:  # a busy or restarting database: the next tick may get through
                _log.exception("schedules were not looked at")
            left -= tick_s
            self._stop.wait(tick_s)


def prune(node: Node) -> int:
    """Forget jobs that ended long ago, request keys that have expired, old rejected rows."""
    now, settings = node.clock().ns, node.settings
    return node.stores.jobs.prune(
        before=Instant(now - settings.job_keep_s * NANOS),
        rejected_before=Instant(now - settings.rejected_rows_keep_s * NANOS),
    )
