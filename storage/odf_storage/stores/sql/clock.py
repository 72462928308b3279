"""The clock that all programs of a node share: that of its database server.

Leases, schedules, tokens and signed URLs are times that one program writes and another compares
with its own. If the clocks of their machines differ by hours, jobs are taken from workers that are
well, and those of a worker that died rest for hours.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import sqlalchemy as sa

from odf_protocol.instant import NANOS, Instant

from ...runtime.clock import Clock, system_clock

AGAIN_S = 60.0
"""Seconds after which the server is asked again; quartz is off by some milliseconds by then."""
_ASKED = sa.text("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It goes on while the machine sleeps, where the system has such a clock."""


def shared_clock(engine: sa.Engine) -> Clock:
    """Return the clock of a PostgreSQL server; with SQLite all programs are on one machine, whose
    clock they share."""
    return DatabaseClock(engine) if engine.dialect.name == "postgresql" else system_clock


class DatabaseClock:
    """The time of the server, which is asked once in a while; between, the time that passed on
    this machine is added, so that nobody who sets a clock here is noticed.

    Only the first call waits for an answer. While the server is away, its time goes on.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._ahead_ns: int | None = None
        """The time of the server, less that of the steady clock."""
        self._asked_ns = 0

    def __call__(self) -> Instant:
        now = time.clock_gettime_ns(_STEADY)
        ahead_ns = self._ahead_ns
        if ahead_ns is None:
            ahead_ns = self._ask()
        elif now - self._asked_ns > AGAIN_S * NANOS and self._lock.acquire(blocking=False):
            self._asked_ns = now
            threading.Thread(target=self._ask_beside, name="clock", daemon=True).start()
        return Instant(time.clock_gettime_ns(_STEADY) + ahead_ns)

    def _ask(self) -> int:
        """Ask the server. Raises the errors of an unreachable database."""
        with self._engine.connect() as db:
            began = time.clock_gettime_ns(_STEADY)
            micros = int(db.execute(_ASKED).scalar_one())
            ended = time.clock_gettime_ns(_STEADY)
        self._asked_ns = ended
        self._ahead_ns = micros * 1000 - (began + ended) // 2
        return self._ahead_ns

    def _ask_beside(self) -> None:
        try:
            with suppress(Exception):  # it is away: asked again after a while
                self._ask()
        finally:
            self._lock.release()
