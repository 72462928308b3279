"""SHA3-256 of many byte streams: `hash_all` takes the streams and returns their digests.

`hashlib` hashes one stream after the other. Once many bytes are expected, code is compiled for this
processor (the extra `hashing`), which hashes as many streams at once as the processor has lanes.
The digests are the same either way.
"""

from __future__ import annotations

from .side_by_side import THREADS, Stream, expect, hash_all, lanes, prepare

__all__ = ["THREADS", "Stream", "expect", "hash_all", "lanes", "prepare"]
