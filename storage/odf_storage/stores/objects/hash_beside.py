"""Hashes content in parallel with writing it, so that SHA3 and the disk work at the same time.

Short content is hashed in the caller's thread; long content by a second thread, which may lag a
few pieces behind. Hashing and writing both release the interpreter lock.
"""

from __future__ import annotations

import hashlib
import threading
from queue import SimpleQueue

from odf_protocol.multihash import SHA3_256, Multihash

SHORT_BYTES = 128 * 1024
"""Content up to this size is hashed without a thread; longer content while the disk syncs."""
PIECES_BEHIND = 8
"""Number of pieces that hashing may lag behind, which are kept in memory."""


class HashBeside:
    """Computes the SHA3-256 of successive pieces; must be closed."""

    def __init__(self) -> None:
        self._state, self._size = hashlib.sha3_256(), 0
        self._pieces: SimpleQueue[bytes | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def update(self, piece: bytes) -> None:
        """Add a piece, which must not change afterwards."""
        self._size += len(piece)
        if self._thread is not None:
            self._room.get()
            self._pieces.put(piece)
        elif self._size <= SHORT_BYTES:
            self._state.update(piece)
        else:
            self._thread = threading.Thread(target=self._work, name="hash-beside", daemon=True)
            self._thread.start()
            self._pieces.put(piece)
            for _ in range(PIECES_BEHIND - 1):
                self._room.put(None)

    def result(self) -> Multihash:
        """Wait for the remaining pieces and return the hash. No piece can be added afterwards."""
        self.close()
        return Multihash(SHA3_256, self._state.digest())

    def close(self) -> None:
        """End the thread after it has hashed all its pieces."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._pieces.put(None)
            thread.join()

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            self._state.update(piece)
            self._room.put(None)
