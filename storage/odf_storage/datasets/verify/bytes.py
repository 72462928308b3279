"""The bytes of an object under verification: read once, hashed on the way, kept for its rows.

Objects of usual size stay in memory, in buffers that are reused for later objects: the system
would first have to clear fresh memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

CHUNK_BYTES = 1928 * 136
"""Bytes of a chunk: some 256 KiB fit into the cache of a core while they are hashed. It is a
multiple of the SHA3-256 block size, so that the hash has no partial blocks to buffer."""
HELD_BYTES = 64 << 20
"""Size in bytes of the largest object that is kept in memory; each thread keeps a few."""


class Buffers:
    """Pool of buffers for one object each, for all threads. Pickling it gives an empty pool."""

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
    """Counts the bytes that are read for a hash."""

    def __init__(self) -> None:
        self.size = 0

    def read(
        self, stream: BinaryIO, limit: int, keep: Callable[[bytes], object]
    ) -> Iterator[bytes]:
        """Yield the chunks of a stream to its end, or to one byte past the limit."""
        while self.size <= limit and (
            chunk := stream.read(min(CHUNK_BYTES, limit + 1 - self.size))
        ):
            yield chunk
            self.size += len(chunk)
            keep(chunk)


def filled(stream: Any, buffer: memoryview) -> int:
    """Fill the buffer from the stream; return the number of bytes. It is one more than the size of
    the buffer if more bytes follow."""
    size = 0
    while count := stream.readinto(buffer[size : size + CHUNK_BYTES]):
        size += int(count)
    return size + (size == len(buffer) and bool(stream.read(1)))
