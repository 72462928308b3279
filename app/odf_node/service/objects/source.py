"""Sources of the bytes of a response: a file on disk, or a stream of an object store.

As long as the kernel has the bytes of a file in memory (`RWF_NOWAIT`), they are read in the event
loop. Only reads from the disk need a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import BinaryIO, Protocol

from anyio import to_thread

from odf_storage.datasets.integrity.identity import identity_of_file

CHUNK_BYTES = 1024 * 1024
SMALL_BYTES = 64 * 1024
"""Files up to this size in bytes are sent in one piece if the kernel has them in memory."""
_NOWAIT = getattr(os, "RWF_NOWAIT", None)
"""Linux only; on other systems every read runs in a thread."""


class Source(Protocol):
    """The bytes of one object, read by one reader at a time."""

    async def read(self, at: int, count: int) -> bytes | bytearray:
        """Return up to `count` bytes (limit `CHUNK_BYTES`) from position `at`; empty at the end."""

    async def close(self) -> None: ...


class FileSource:
    """An open regular file."""

    __slots__ = ("_handle", "identity", "size")

    def __init__(self, handle: int, found: os.stat_result) -> None:
        self._handle, self.size, self.identity = handle, found.st_size, identity_of_file(found)

    @classmethod
    def open(cls, path: str) -> FileSource | None:
        """Open the file. Return None if there is no regular file at the path."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            os.close(handle)
            return None
        return cls(handle, found)

    async def read(self, at: int, count: int) -> bytes | bytearray:
        piece = self.read_now(at, count)
        return await to_thread.run_sync(self._read, at, count) if piece is None else piece

    def read_now(self, at: int, count: int) -> bytearray | None:
        """Return bytes that the kernel has in memory; None if the disk must be read."""
        if _NOWAIT is None:
            return None
        piece = bytearray(min(count, CHUNK_BYTES))
        try:
            got = os.preadv(self._handle, (piece,), at, _NOWAIT)
        except OSError:  # not in memory, or the file system does not support the flag
            return None
        if got < len(piece):
            del piece[got:]
        return piece

    def _read(self, at: int, count: int) -> bytes:
        return os.pread(self._handle, min(count, CHUNK_BYTES), at)

    def close_now(self) -> None:
        os.close(self._handle)

    async def close(self) -> None:
        os.close(self._handle)


class StreamSource:
    """An object that is opened at a position and read sequentially from there."""

    def __init__(self, open_at: Callable[[int], BinaryIO]) -> None:
        self._open_at = open_at
        self._stream: BinaryIO | None = None
        self._at = 0

    async def read(self, at: int, count: int) -> bytes | bytearray:
        return await to_thread.run_sync(self._read, at, min(count, CHUNK_BYTES))

    def _read(self, at: int, count: int) -> bytes:
        if self._stream is None or self._at != at:
            self._shut()
            self._stream = self._open_at(at)
        piece = self._stream.read(count)
        self._at = at + len(piece)
        return piece

    async def close(self) -> None:
        if self._stream is not None:
            await to_thread.run_sync(self._shut)

    def _shut(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
