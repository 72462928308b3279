"""The bytes of an object that is looked at: read once, hashed on the way, kept for a second look.

Objects of usual size stay in memory, in buffers that go from one object to the next: fresh
memory would be cleared by the system first. Larger ones are read again where they lie, or from
a temporary file if their source cannot go back.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from protocol.multihash import SHA3_256, Multihash

CHUNK_BYTES = 1 << 18
"""A piece is hashed while it is in the cache of a core."""
HELD_BYTES = 64 << 20
"""Largest object that is held in memory, by each thread."""


@dataclass(frozen=True, slots=True)
class Content:
    """What an object came to. `again`: its bytes, an Arrow buffer or a file; None: not kept."""

    hash: Multihash
    size: int
    again: Any


class Buffers:
    """Memory that is lent for one object at a time, by any thread."""

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    @contextmanager
    def lent(self, size: int) -> Iterator[memoryview]:
        buffer = self._spare.pop() if self._spare else bytearray()
        if len(buffer) < size:
            buffer = bytearray(size + size // 8)  # the next object may be a little larger
        yield memoryview(buffer)[:size]
        self._spare.append(buffer)


@contextmanager
def content_of(stream: BinaryIO, size: int, buffers: Buffers, *, keep: bool) -> Iterator[Content]:
    """Read a stream to its end, or to one byte past `size`. What is kept stays for the context."""
    if not keep:
        yield _read(stream, size, _dropped, None)
    elif size <= HELD_BYTES:
        with buffers.lent(size) as held:
            yield _filled(stream, held)
    elif stream.seekable():
        yield _read(stream, size, _dropped, stream)
    else:
        with tempfile.TemporaryFile() as spool:
            yield _read(stream, size, spool.write, spool)


def _filled(stream: Any, held: memoryview) -> Content:
    """Read straight into memory, each piece hashed while it is in the processor's cache."""
    state, size = hashlib.sha3_256(), 0
    while count := stream.readinto(held[size : size + CHUNK_BYTES]):
        state.update(held[size : size + count])
        size += count
    if size == len(held) and (more := stream.read(1)):
        state.update(more)
        size += len(more)
    return Content(Multihash(SHA3_256, state.digest()), size, pa.py_buffer(held))


def _read(stream: BinaryIO, limit: int, keep: Callable[[bytes], object], again: Any) -> Content:
    state, size = hashlib.sha3_256(), 0
    while size <= limit and (chunk := stream.read(min(CHUNK_BYTES, limit + 1 - size))):
        state.update(chunk)
        size += len(chunk)
        keep(chunk)
    return Content(Multihash(SHA3_256, state.digest()), size, again)


def _dropped(_: bytes) -> None:
    """Bytes that nobody needs again."""
