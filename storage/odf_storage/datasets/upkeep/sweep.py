"""Repairs that a running node does by itself, at its start and periodically."""

from __future__ import annotations

from datetime import timedelta

from odf_protocol.instant import NANOS, Instant

from ...runtime.clock import Clock, system_clock
from ..node.stores import Stores

ABANDONED_AFTER = timedelta(days=1)
"""Age from which an unfinished write counts as the remains of a crash."""
LOOK_BACK = timedelta(hours=3)
"""Heads that moved within this time are compared with the published files; it is longer than the
pause between two sweeps."""


def republish_recent(stores: Stores, *, clock: Clock = system_clock) -> int:
    """Publish again what an outage of the object store prevented after a commit; return how many
    datasets were wrong."""
    return stores.republish_all(moved_since=_ago(clock, LOOK_BACK))


def remove_abandoned(stores: Stores, *, clock: Clock = system_clock) -> int:
    """Remove the files of writes that broke off; return their number. It checks every file."""
    return stores.objects.remove_abandoned(before=_ago(clock, ABANDONED_AFTER))


def _ago(clock: Clock, time: timedelta) -> Instant:
    return Instant(clock().ns - int(time.total_seconds()) * NANOS)
