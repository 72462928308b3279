"""The clock of the store, for the times of log lines, leases and revocations."""

from __future__ import annotations

import time
from collections.abc import Callable

from odf_protocol.instant import Instant

Clock = Callable[[], Instant]


def system_clock() -> Instant:
    return Instant(time.time_ns())
