"""What a running node puts right by itself, at its start and now and then."""

from __future__ import annotations

from datetime import timedelta

from odf_node.protocol.instant import NANOS, Instant

from ...runtime.clock import Clock, system_clock
from ..node.stores import Stores

ABANDONED_AFTER = timedelta(days=1)
"""Age at which a write that did not end is taken for the remains of a crash."""
LOOK_BACK = timedelta(hours=3)
"""Heads that moved within this time are compared with what lies beside the objects; longer than
the pause between two sweeps."""


def republish_recent(stores: Stores, *, clock: Clock = system_clock) -> int:
    """Write again what an outage of the object store kept from being written after a commit."""
    return stores.republish_all(moved_since=_ago(clock, LOOK_BACK))


def remove_abandoned(stores: Stores, *, clock: Clock = system_clock) -> int:
    """Remove what writes that broke off left behind; returns how many. Looks at every file."""
    return stores.objects.remove_abandoned(before=_ago(clock, ABANDONED_AFTER))


def _ago(clock: Clock, time: timedelta) -> Instant:
    return Instant(clock().ns - int(time.total_seconds()) * NANOS)
