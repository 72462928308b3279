"""The bytes of an object that is looked at: read once, hashed on the way, kept for a second look.

Objects of usual size stay in memory, in buffers that go from one object to the next: fresh
memory would be cleared by the system first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

CHUNK_BYTES = 1928 * 136
"""A piece of some 256 KiB is hashed while it is in the cache of a core; a multiple of what SHA3-256
takes in at once, so that nothing has to be put together."""
HELD_BYTES = 64 << 20
"""Largest object that is held in memory, a few by each thread."""


class Buffers:
    """Memory that is lent for one object at a time, by any thread. Pickled, it is left behind."""

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    def __reduce__(self) -> tuple[type[Buffers], tuple[()]]:
        return Buffers, ()

    @contextmanager
    def lent(self, size: int) -> Iterator[memoryview]:
        buffer = self._spare.pop() if self._spare else bytearray()
        if len(buffer) < size:
            buffer = bytearray(size + size // 8)  # the next object may be a little larger
        yield memoryview(buffer)[:size]
        self._spare.append(buffer)


class Passing:
    """Bytes on their way through a hash, and how many there were."""

    def __init__(self) -> None:
        self.size = 0

    def read(
        self, stream: BinaryIO, limit: int, keep: Callable[[bytes], object]
    ) -> Iterator[bytes]:
        """Those of a stream to its end, or to one byte past the limit."""
        while self.size <= limit and (
            chunk := stream.read(min(CHUNK_BYTES, limit + 1 - self.size))
        ):
            yield chunk
            self.size += len(chunk)
            keep(chunk)


def filled(stream: Any, buffer: memoryview) -> int:
    """Read straight into memory: how many bytes, one more than there is room for if more follow."""
    size = 0
    while count := stream.readinto(buffer[size : size + CHUNK_BYTES]):
        size += int(count)
    return size + (size == len(buffer) and bool(stream.read(1)))
