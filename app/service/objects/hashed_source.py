"""Bytes that are hashed on their way out: the last of them leave only if all of them were right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from anyio import to_thread

from odf_node.protocol.errors import Damaged
from odf_node.protocol.multihash import SHA3_256, Multihash
from odf_node.storage.stores.ports.values import ObjectKey

from .source import Source


class BytesDiffer(Damaged):
    """What was read of an object is not what its name says; its last bytes were kept back."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(
            f"the stored bytes of {key.kind} {key.hash} are others", hash=str(key.hash)
        )


class HashedSource:
    """All of an object in one go, from its begin to its end.

    `on_right` is called once everything was read and hashes to the name.
    """

    def __init__(
        self, inner: Source, key: ObjectKey, size: int, on_right: Callable[[], None] = lambda: None
    ) -> None:
        self._inner, self._key, self._size, self._on_right = inner, key, size, on_right
        self._state = hashlib.sha3_256()
        self.gave = False
        """Whether anything left already."""

    async def read(self, at: int, count: int) -> bytes | bytearray:
        """Raises `BytesDiffer` instead of giving the last piece."""
        piece = await self._inner.read(at, count)
        if not piece:  # it ends early: what follows is not there
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
