"""The clock of the service: schedules that are due are started, damaged objects looked after, what
is old is cleared away."""

from __future__ import annotations

import logging
import threading

from odf_node.protocol.instant import NANOS, Instant
from odf_node.storage.datasets.integrity.healing import retry_open_damages

from ..wiring import Node
from .schedules import start_due

STOP_S = 5.0
PRUNE_S = 3600.0
LOOK_S = 15.0
"""Seconds between two looks at objects that are not whole."""
HEALED_KEPT_S = 90 * 86_400
"""Seconds for which it is remembered that an object was damaged once."""
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
        left = look = 0.0
        while not self._stop.is_set():
            try:
                start_due(self._node)
                if look <= 0:
                    retry_open_damages(self._node.stores)
                    look = LOOK_S
                if left <= 0:
                    prune(self._node)
                    left = PRUNE_S
            except Exception:  # a busy or restarting database: the next tick may get through
                _log.exception("schedules were not looked at")
            left -= tick_s
            look -= tick_s
            self._stop.wait(tick_s)


def prune(node: Node) -> int:
    """Forget jobs that ended long ago, request keys that have expired, old rejected rows, what was
    healed long ago, and command lines whose users never came."""
    now, settings = node.clock().ns, node.settings
    node.stores.damages.prune(before=Instant(now - HEALED_KEPT_S * NANOS))
    node.stores.devices.remove_expired(Instant(now))
    return node.stores.jobs.prune(
        before=Instant(now - settings.job_keep_s * NANOS),
        rejected_before=Instant(now - settings.rejected_rows_keep_s * NANOS),
    )
