"""Periodic work of the service: start due schedules, heal objects, remove old records."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.integrity.healing import HealingStores, retry_open_damages
from odf_storage.runtime.clock import Clock
from odf_storage.stores.ports import DamageLog, DeviceLogins, JobRecords

from ..query.background import BackgroundQueries
from .schedules import Scheduling, start_due

STOP_S = 5.0
PRUNE_S = 3600.0
LOOK_S = 15.0
"""Seconds between two attempts to heal damaged objects."""
HEALED_KEPT_S = 90 * 86_400
"""Seconds for which the record of a healed object is kept."""
_log = logging.getLogger("odf.node")


@dataclass(frozen=True)
class Pruning:
    """The records that are removed when they are old, and how long they are kept."""

    jobs: JobRecords
    damages: DamageLog
    devices: DeviceLogins
    queries: BackgroundQueries
    job_keep_s: int
    rejected_rows_keep_s: int
    clock: Clock


class Ticker:
    """A thread that runs every `schedule_tick_s` seconds; every service process has one."""

    def __init__(
        self, scheduling: Scheduling, pruning: Pruning, stores: HealingStores, *, tick_s: float
    ) -> None:
        self._scheduling, self._pruning, self._stores = scheduling, pruning, stores
        self._tick_s = tick_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _work(self) -> None:
        tick_s = self._tick_s
        left = look = 0.0
        while not self._stop.is_set():
            try:
                start_due(self._scheduling)
                if look <= 0:
                    retry_open_damages(self._stores)
                    look = LOOK_S
                if left <= 0:
                    prune(self._pruning)
                    left = PRUNE_S
            except Exception:  # the database is busy or restarts: the next tick may succeed
                _log.exception("schedules were not looked at")
            left -= tick_s
            look -= tick_s
            self._stop.wait(tick_s)


def prune(pruning: Pruning) -> int:
    """Remove old jobs, expired request keys, old rejected rows, old results of queries, records
    of objects healed long ago, and expired device logins. Return the number of removed jobs."""
    now = pruning.clock().ns
    pruning.damages.prune(before=Instant(now - HEALED_KEPT_S * NANOS))
    pruning.devices.remove_expired(Instant(now))
    pruning.queries.collect()
    return pruning.jobs.prune(
        before=Instant(now - pruning.job_keep_s * NANOS),
        rejected_before=Instant(now - pruning.rejected_rows_keep_s * NANOS),
    )
