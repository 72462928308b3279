"""Ports for datasets, their references and their blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash

from .values import DatasetEntry, HeadMove, HeadMoved, JobEnd, Visibility


class DatasetEntries(Protocol):
    """Reads which datasets this node has, and their names, which are compared case-insensitively.

    `get` raises `DatasetNotFound`.
    """

    def get(self, ref: DatasetRef) -> DatasetEntry: ...
    def find(self, ref: DatasetRef) -> DatasetEntry | None: ...
    def find_former(self, alias: DatasetAlias) -> DatasetEntry | None:
        """Return the dataset that had this name before it was renamed, if none has taken it."""

    def find_all(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, DatasetEntry]:
        """Return the entries of those datasets that this node has."""

    def find_named(
        self, wanted: Collection[DatasetAlias]
    ) -> Mapping[DatasetAlias, DatasetEntry]: ...
    def page(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[DatasetEntry]:
        """Return entries by folded alias, only those whose alias is greater than `after`."""


class DatasetChanges(Protocol):
    """Creates, renames and forgets datasets.

    `create` stores entry and first head atomically; it raises `AliasTaken` or `DatasetIdTaken`.
    Every other change raises `DatasetNotFound`.
    """

    def create(self, entry: DatasetEntry, *, blocks: Sequence[HashedBlock]) -> None:
        """Register a dataset with its first blocks, oldest first; the last one becomes the head."""

    def rename(self, dataset: DatasetId, alias: DatasetAlias) -> None: ...
    def set_visibility(self, dataset: DatasetId, visibility: Visibility) -> None: ...
    def forget(self, dataset: DatasetId, *, expected: Multihash | None = None) -> None:
        """Remove the dataset and everything that belongs to it but its lines in logs.

        Its variables, ended jobs and rejected rows are deleted. Its open jobs are cancelled and
        belong to no dataset afterwards. A dataset created again with the same id gets none of them.

        Raises:
            RefConflict: `expected` is given and is not its head.
        """


class DatasetInputs(Protocol):
    """Records which datasets derive from which. `set_inputs` raises `DatasetNotFound`."""

    def set_inputs(self, dataset: DatasetId, inputs: Sequence[DatasetId]) -> None: ...
    def dependants(self, dataset: DatasetId) -> Sequence[DatasetId]: ...
    def dependants_of_any(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]: ...


class DatasetRegistry(DatasetEntries, DatasetChanges, DatasetInputs, Protocol):
    """All dataset ports in one; code that uses the registry names the part that it needs."""


class Heads(Protocol):
    """The blocks that named references point to: the only part of a dataset that ever changes.

    If absent: `DatasetNotFound`, or `RefNotFound` for a name other than `head`.
    """

    def head(self, dataset: DatasetId, ref: str = "head") -> Multihash: ...
    def heads(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, Multihash]:
        """Return the heads of those datasets that this node has."""


class HeadMoves(Protocol):
    """Moves references, and logs every move.

    `move` stores the new blocks, compares and swaps the head, and logs the move, all in one
    transaction; the loser of a race gets `RefConflict(expected, actual)`. The jobs of `ended` end
    in the same transaction; if a worker has lost its job (`LeaseLost`), the head does not move.
    Once a reader has read a number of the log, no smaller number appears. Creation is logged too.
    New blocks continue a stored block (`BlockNotFound`) or start a chain.
    `of` is the dataset's entry as the caller knows it: if the dataset was forgotten and created
    again since, its earlier objects are gone (`DatasetNotFound`).
    """

    def move(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash,
        new: Multihash,
        blocks: Sequence[HashedBlock] = (),
        ref: str = "head",
        ended: Sequence[JobEnd] = (),
        of: DatasetEntry | None = None,
    ) -> None: ...
    def move_all(self, wanted: Sequence[HeadMove]) -> Sequence[NodeError | None]:
        """Move heads of different datasets in one transaction. Return for each the error that
        `move` would raise, or None. A refused move does not stop the others."""

    def moves(
        self, *, after: int, limit: int = 100, since: Instant | None = None
    ) -> Sequence[HeadMoved]:
        """Return log entries numbered above `after`, not older than `since`, oldest first."""

    def has_moved(self, dataset: DatasetId) -> bool:
        """Return whether the log has a move of the dataset since its last creation."""

    def log_end(self) -> int:
        """Return the largest number in the log, or 0. Only larger numbers are added afterwards."""

    def newest_moves(self, *, before: int | None = None, limit: int = 100) -> Sequence[HeadMoved]:
        """Return log entries with numbers below `before`, newest first. This is for display, not
        for following the log: the most recent moves may still be missing."""

    def prune(self, dataset: DatasetId, *, heads: Sequence[Multihash]) -> int:
        """Delete the blocks that cannot be reached from `heads`; return their number.

        The first of `heads` must be the current head (`RefConflict`). `move` refuses new blocks
        that continue a deleted block.
        """


class RefIndex(Heads, HeadMoves, Protocol):
    """Both reference ports in one; code that uses the index names the part that it needs."""


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


class BlocksBehind(Protocol):
    """Reads chains from old to new, for readers that follow a dataset."""

    def behind(
        self, dataset: DatasetId, block: Multihash | None, head: Multihash, *, limit: int = 1000
    ) -> Sequence[HashedBlock] | None:
        """Return the blocks after `block` (None: from the first) up to `head`, oldest first, at
        most `limit`. None if `block` is unknown, or is neither `head` nor an ancestor of it.
        """
