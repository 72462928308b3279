"""The hash of a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import BinaryIO

from odf_protocol.multihash import SHA3_256, Multihash

READ_BYTES = 1 << 20


def hash_of_stream(stream: BinaryIO, keep: Callable[[bytes], object] = lambda _: None) -> Multihash:
    """Return the hash of the rest of the stream. `keep` is called with each piece."""
    state = hashlib.sha3_256()
    while piece := stream.read(READ_BYTES):
        state.update(piece)
        keep(piece)
    return Multihash(SHA3_256, state.digest())
