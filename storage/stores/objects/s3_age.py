"""The age of objects in a bucket: renewing one, and removing an old one unless it is renewed.

The server dates objects itself, so that an object is renewed by an empty mark beside it.
Between the last look at that mark and the removal there must be no renewal: who discards
first condemns the object and then looks for the mark, who renews first sets the mark and
then looks whether the object is condemned. At least one of them sees the other, as the
server lets nobody read what was before a write that ended.

    .renewed/fed01…/<kind>/f1620…      when it was renewed last
    .condemned/fed01…/<kind>/f1620…    somebody is about to remove it
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from functools import cached_property

from odf_node.protocol.instant import NANOS, Instant

from ...runtime.clock import Clock, system_clock
from ..ports.values import ObjectInfo
from .s3_bucket import Bucket, KeyMissing

RENEWED = ".renewed"
CONDEMNED = ".condemned"
YOUNG = timedelta(minutes=10)
"""Below this age nothing needs a mark: far below any age at which objects are discarded."""
DISCARD_WITHIN_S = 60.0
"""Who condemned an object longer ago removes it no more."""
CONDEMNED_FOR = timedelta(minutes=10)
"""A condemnation older than this is the remains of a crash; far above `DISCARD_WITHIN_S`. Until
then nobody can put an object whose removal was cut short by a crash."""


class Ages:
    """Marks of one bucket. `below` is an object's address in the folders of marks."""

    def __init__(self, bucket: Bucket, *, clock: Clock = system_clock) -> None:
        self._bucket = bucket
        self._clock = clock

    def is_young(self, info: ObjectInfo) -> bool:
        """Put so lately that renewing it would change nothing."""
        return info.modified is not None and info.modified > self._ago(YOUNG)

    def renew(self, below: str) -> bool:
        """Make an object young. False: it is just being removed, and may be gone any moment."""
        self._bucket.call("put_object", f"{RENEWED}/{below}", Body=b"")
        condemned = self._set_at(f"{CONDEMNED}/{below}")
        return condemned is None or condemned < self._ago(CONDEMNED_FOR)

    def discard(self, below: str, name: str, before: Instant) -> bool:
        """Remove the object `name` unless it was renewed since; whether it was removed."""
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
        """When a mark was set; rounded up, as the server tells whole seconds only."""
        try:
            return Instant(Instant.from_datetime(self._bucket.stat(mark).modified).ns + NANOS)
        except KeyMissing:
            return None

    def _ago(self, age: timedelta) -> Instant:
        return Instant(self._clock().ns - int(age.total_seconds()) * NANOS)

    @cached_property
    def _once(self) -> Bucket:
        """Tries nothing twice: a late second removal could hit an object put again since."""
        return Bucket(self._bucket.location, limits=replace(self._bucket.limits, tries=1))
