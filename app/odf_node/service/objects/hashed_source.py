"""A source that hashes bytes as it sends them, and withholds the last ones if the hash is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from anyio import to_thread

from odf_protocol.errors import Damaged
from odf_protocol.multihash import SHA3_256, Multihash
from odf_storage.stores.ports.values import ObjectKey

from .source import Source


class BytesDiffer(Damaged):
    """The bytes of an object do not have the hash in its name; its last bytes were not sent."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(
            f"the stored bytes of {key.kind} {key.hash} are others", hash=str(key.hash)
        )


class HashedSource:
    """A whole object, read once from its begin to its end.

    `on_right` is called when all bytes are read and their hash is the one in the name.
    """

    def __init__(
        self, inner: Source, key: ObjectKey, size: int, on_right: Callable[[], None] = lambda: None
    ) -> None:
        self._inner, self._key, self._size, self._on_right = inner, key, size, on_right
        self._state = hashlib.sha3_256()
        self.gave = False
        """Whether any bytes have been returned."""

    async def read(self, at: int, count: int) -> bytes | bytearray:
        """Return the next piece. Raises `BytesDiffer` instead of returning the last piece."""
        piece = await self._inner.read(at, count)
        if not piece:  # the object is shorter than its recorded size
            raise BytesDiffer(self._key)
        await to_thread.run_sync(self._state.update, piece)
        if at + len(piece) >= self._size:
            if Multihash(SHA3_256, self._state.digest()) != self._key.hash:
                raise BytesDiffer(self._key)
            self._on_right()
        self.gave = True
        return piece

    async def close(self) -> None:
        await self._inner.close()
