"""Port for the blocks of datasets, which the index has and which a check may add to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash


class BlockIndex(Protocol):
    """Blocks with their raw bytes, so that a reader gets a range of a chain in one call."""

    def find(self, dataset: DatasetId, block: Multihash) -> HashedBlock | None: ...
    def ancestors(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[HashedBlock]:
        """Return `start` and the blocks before it, newest first, following `prev`.

        Stop below sequence number `down_to`, or after `limit` blocks. Empty if `start` is unknown.
        """

    def raw(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[tuple[Multihash, bytes]]:
        """As `ancestors`, but return hash and bytes of each block, neither decoded nor verified."""

    def lineage(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0
    ) -> Iterator[Multihash]:
        """Yield the hashes of `start` and all blocks before it, newest first, without decoding."""

    def schemas(self, dataset: DatasetId) -> Iterator[HashedBlock]:
        """Yield the blocks that set a schema, on all branches, in no particular order."""

    def count(self, dataset: DatasetId) -> int:
        """Return the number of stored blocks, on all branches."""

    def owner(self, block: Multihash) -> DatasetId | None:
        """Return the dataset that has this block, on any branch; None if no dataset has it."""
