"""Hash all objects again under a rate limit, to find those that the disk has damaged.

A disk can lose bytes without an error. `fsck` with a rate is a scrub: it runs beside the node,
uses only its share of the disk, and can quarantine damaged objects. For clients a quarantined
object is absent: the node serves no bytes that do not match their hash, and a peer that has the
right bytes may put them again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from odf_protocol.multihash import SHA3_256, Multihash

CHUNK_BYTES = 1 << 20
SMALL_BYTES = 1 << 16


@dataclass
class Throttle:
    """Limits reading to `rate` bytes per second, with bursts of at most `burst_s` seconds' worth.

    `rate` None: no limit.
    """

    rate: float | None = None
    burst_s: float = 0.25
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _free_at: float = field(default=0.0, init=False)

    def __call__(self, size: int) -> None:
        """Wait until `size` more bytes may be read."""
        if self.rate is None:
            return
        now = self.clock()
        self._free_at = max(self._free_at, now - self.burst_s) + size / self.rate
        if self._free_at > now:
            self.sleep(self._free_at - now)


def hash_of(stream: BinaryIO, throttle: Throttle) -> tuple[Multihash, int]:
    """Return hash and length in bytes of the rest of a stream, reading it in chunks."""
    state, size = hashlib.sha3_256(), 0
    while chunk := stream.read(CHUNK_BYTES):
        throttle(len(chunk))
        state.update(chunk)
        size += len(chunk)
    return Multihash(SHA3_256, state.digest()), size


def read_up_to(stream: BinaryIO, limit: int) -> bytes:
    """Return the bytes of a stream, at most the first `limit`; allocate memory as needed."""
    parts, left, wanted = list[bytes](), limit, min(SMALL_BYTES, limit)
    while left and (part := stream.read(wanted)):
        parts.append(part)
        left -= len(part)
        wanted = min(CHUNK_BYTES, left)
    return b"".join(parts)
