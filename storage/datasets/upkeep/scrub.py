"""Reading everything again, slowly: hashes under a rate limit, the damaged put aside.

A disk forgets without saying so. `fsck` with a rate is a scrub: it runs beside the node,
takes no more than its share of the disk, and takes damaged objects out of sight. For clients
such an object is absent: nobody is served bytes that are not what they are called, and
a peer that has the right ones may put them again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from odf_node.protocol.multihash import SHA3_256, Multihash

CHUNK_BYTES = 1 << 20
SMALL_BYTES = 1 << 16


@dataclass
class Throttle:
    """Lets so many bytes a second through, and no more than `burst_s` seconds' worth at once.

    `rate` None: everything.
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
    """Hash and length in bytes of what is left of a stream, a chunk in memory at a time."""
    state, size = hashlib.sha3_256(), 0
    while chunk := stream.read(CHUNK_BYTES):
        throttle(len(chunk))
        state.update(chunk)
        size += len(chunk)
    return Multihash(SHA3_256, state.digest()), size


def read_up_to(stream: BinaryIO, limit: int) -> bytes:
    """What a stream holds, or its first `limit` bytes; room is made as it is needed."""
    parts, left, wanted = list[bytes](), limit, min(SMALL_BYTES, limit)
    while left and (part := stream.read(wanted)):
        parts.append(part)
        left -= len(part)
        wanted = min(CHUNK_BYTES, left)
    return b"".join(parts)
