"""The age of objects in a bucket: renews an object, or removes an old one unless it is renewed.

The server sets the modification time of objects, so an empty mark beside an object records that it
was renewed. No renewal may happen between the last check of that mark and the removal. Therefore
`discard` first writes a second mark, which condemns the object, and then checks for a renewal;
`renew` first writes its mark and then checks whether the object is condemned. At least one of them
sees the mark of the other, because a read never returns the state before a completed write.

    .renewed/fed01…/<kind>/f1620…      its time is when the object was last renewed
    .condemned/fed01…/<kind>/f1620…    the object is about to be removed
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from functools import cached_property

from odf_protocol.instant import NANOS, Instant

from ...runtime.clock import Clock, system_clock
from ..ports.values import ObjectInfo
from .s3_bucket import Bucket, KeyMissing

RENEWED = ".renewed"
CONDEMNED = ".condemned"
YOUNG = timedelta(minutes=10)
"""Objects below this age need no mark, because objects are discarded at far greater ages."""
DISCARD_WITHIN_S = 60.0
"""A `discard` that condemned its object longer ago than this does not remove it any more."""
CONDEMNED_FOR = timedelta(minutes=10)
"""A condemnation older than this is a leftover of a crash; must far exceed `DISCARD_WITHIN_S`.
Until then nobody can put an object whose removal was interrupted by a crash."""


class Ages:
    """Marks of one bucket. `below` is the path of an object inside the folders of marks."""

    def __init__(self, bucket: Bucket, *, clock: Clock = system_clock) -> None:
        self._bucket = bucket
        self._clock = clock

    def is_young(self, info: ObjectInfo) -> bool:
        """Return whether the object is so new that it need not be renewed."""
        return info.modified is not None and info.modified > self._ago(YOUNG)

    def renew(self, below: str) -> bool:
        """Reset an object's age. Return False if it is being removed, and may vanish any moment."""
        self._bucket.call("put_object", f"{RENEWED}/{below}", Body=b"")
        condemned = self._set_at(f"{CONDEMNED}/{below}")
        return condemned is None or condemned < self._ago(CONDEMNED_FOR)

    def discard(self, below: str, name: str, before: Instant) -> bool:
        """Remove the object `name` unless it was renewed since; return whether it was removed."""
        renewed, condemned = f"{RENEWED}/{below}", f"{CONDEMNED}/{below}"
        if self._is_since(renewed, before):
            return False
        began = time.monotonic()
        self._bucket.call("put_object", condemned, Body=b"")
        try:
            if not self._is_old(name, before) or self._is_since(renewed, before):
                return False
            if time.monotonic() - began > DISCARD_WITHIN_S:
                return False
            self._once.call("delete_object", name)
            self._bucket.delete([renewed])
        finally:
            self._bucket.delete([condemned])
        return True

    def _is_old(self, name: str, before: Instant) -> bool:
        try:
            return Instant.from_datetime(self._bucket.stat(name).modified) < before
        except KeyMissing:
            return False

    def _is_since(self, mark: str, before: Instant) -> bool:
        at = self._set_at(mark)
        return at is not None and at >= before

    def _set_at(self, mark: str) -> Instant | None:
        """Return when a mark was set, rounded up because the server reports whole seconds only."""
        try:
            return Instant(Instant.from_datetime(self._bucket.stat(mark).modified).ns + NANOS)
        except KeyMissing:
            return None

    def _ago(self, age: timedelta) -> Instant:
        return Instant(self._clock().ns - int(age.total_seconds()) * NANOS)

    @cached_property
    def _once(self) -> Bucket:
        """The bucket without retries: a late second removal could hit an object put since."""
        return Bucket(self._bucket.location, limits=replace(self._bucket.limits, tries=1))
