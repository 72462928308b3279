"""When a lease ends: the moment until which a job is left to its worker."""

from __future__ import annotations

from datetime import timedelta

from odf_node.protocol.instant import Instant


def after_lease(now: Instant, lease: timedelta) -> Instant:
    """`lease` later than `now`, in whole microseconds."""
    return Instant(now.ns + int(lease / timedelta(microseconds=1)) * 1000)
