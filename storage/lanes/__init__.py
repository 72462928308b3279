"""SHA3-256 of many streams of bytes: `hash_all` takes streams, and gives their digests.

`hashlib` hashes one stream after the other. Once much is expected, code is made for this processor
(the extra `hashing`), which hashes as many streams at once as the processor has lanes. A digest is
the same either way.
"""

from __future__ import annotations

from .side_by_side import THREADS, Stream, expect, hash_all, lanes, prepare

__all__ = ["THREADS", "Stream", "expect", "hash_all", "lanes", "prepare"]
