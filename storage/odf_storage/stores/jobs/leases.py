"""The end of a lease, which is the time until which a job belongs to its worker."""

from __future__ import annotations

from datetime import timedelta

from odf_protocol.instant import Instant


def after_lease(now: Instant, lease: timedelta) -> Instant:
    """Return `now` plus `lease`, in whole microseconds of the lease."""
    return Instant(now.ns + int(lease / timedelta(microseconds=1)) * 1000)
