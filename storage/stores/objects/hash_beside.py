"""Hash what is being written beside writing it: SHA3 and the disk work at the same time.

A short content is hashed where it is; a long one by a thread that may lag a few pieces
behind. Both give the lock of the interpreter away.
"""

from __future__ import annotations

import hashlib
import threading
from queue import SimpleQueue

from odf_node.protocol.multihash import SHA3_256, Multihash

SHORT_BYTES = 128 * 1024
"""Content up to here is not worth a thread. What is longer is hashed while the disk syncs."""
PIECES_BEHIND = 8
"""How far hashing may lag: pieces held in memory."""


class HashBeside:
    """The SHA3-256 of pieces given one after another; has to be closed."""

    def __init__(self) -> None:
        self._state, self._size = hashlib.sha3_256(), 0
        self._pieces: SimpleQueue[bytes | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def update(self, piece: bytes) -> None:
        """The piece must not change afterwards."""
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
        """Waits for what is still to be hashed; nothing can be added any more."""
        self.close()
        return Multihash(SHA3_256, self._state.digest())

    def close(self) -> None:
        """End the thread, once it has hashed what it was given."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._pieces.put(None)
            thread.join()

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            self._state.update(piece)
            self._room.put(None)
