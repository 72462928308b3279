"""The port to which a pull writes: a folder, a bucket, or the stores of a node that mirrors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind

from .repositories import Repository


class Target(Repository, Protocol):
    """One dataset that can be read and extended. Readers see no change before `move_head`."""

    def holds(self, kind: ObjectKind, object_hash: Multihash, size: int) -> bool:
        """Return whether the object is here and undamaged.

        Raises:
            ObjectSizeMismatch: a target that hashes what it has found another size.
        """

    def put(self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]) -> object:
        """Store an object and hash it meanwhile. Raises `HashMismatch`."""

    def check(
        self, new: Sequence[HashedBlock], *, old: Multihash | None, force: bool = False
    ) -> None:
        """Check that `new` may follow `old`; with `force` a whole chain may replace it.

        Raises:
            SeedOverwrite, ChainRuleBroken
        """

    def move_head(self, *, expected: Multihash | None, new: list[HashedBlock]) -> None:
        """Write the blocks, then the head; call it under `locked()`. Raises `Conflict`."""

    def locked(self) -> AbstractContextManager[None]:
        """Lock the dataset against other pulls."""
