"""Datasets, their references and their blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from odf_node.protocol.errors import NodeError
from odf_node.protocol.identity import DatasetAlias, DatasetId, DatasetRef
from odf_node.protocol.instant import Instant
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.multihash import Multihash

from .values import DatasetEntry, HeadMove, HeadMoved, JobEnd, Visibility


class DatasetEntries(Protocol):
    """Which datasets this node keeps and what they are called. Names compare without case.

    `get` raises `DatasetNotFound`.
    """

    def get(self, ref: DatasetRef) -> DatasetEntry: ...
    def find(self, ref: DatasetRef) -> DatasetEntry | None: ...
    def find_all(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, DatasetEntry]:
        """Those of the datasets that are here."""

    def find_named(
        self, wanted: Collection[DatasetAlias]
    ) -> Mapping[DatasetAlias, DatasetEntry]: ...
    def page(
        self, *, account: str | None = None, after: str | None = None, limit: int = 100
    ) -> Sequence[DatasetEntry]:
        """Entries by folded alias, those greater than `after`."""


class DatasetChanges(Protocol):
    """Datasets come, go and are called otherwise.

    `create`: entry and first head appear together or not at all; taken → `AliasTaken` /
    `DatasetIdTaken`. Every other change raises `DatasetNotFound`.
    """

    def create(self, entry: DatasetEntry, *, blocks: Sequence[HashedBlock]) -> None:
        """Register with its first blocks (oldest first); the last one becomes head."""

    def rename(self, dataset: DatasetId, alias: DatasetAlias) -> None: ...
    def set_visibility(self, dataset: DatasetId, visibility: Visibility) -> None: ...
    def forget(self, dataset: DatasetId, *, expected: Multihash | None = None) -> None:
        """With `expected`, only while that is its head; else `RefConflict`."""


class DatasetInputs(Protocol):
    """Which datasets derive from which. `set_inputs` raises `DatasetNotFound`."""

    def set_inputs(self, dataset: DatasetId, inputs: Sequence[DatasetId]) -> None: ...
    def dependants(self, dataset: DatasetId) -> Sequence[DatasetId]: ...
    def dependants_of_any(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]: ...


class DatasetRegistry(DatasetEntries, DatasetChanges, DatasetInputs, Protocol):
    """All of it; those who use one name the part that they need."""


class Heads(Protocol):
    """Where named references point: the only part of a dataset that ever changes.

    Absent: `DatasetNotFound`, or `RefNotFound` for another name than `head`.
    """

    def head(self, dataset: DatasetId, ref: str = "head") -> Multihash: ...
    def heads(self, wanted: Collection[DatasetId]) -> Mapping[DatasetId, Multihash]:
        """As `head` of each; those of the datasets that are here."""


class HeadMoves(Protocol):
    """References move, and a log tells of it.

    `move` stores the new blocks and compares-and-swaps the head in one transaction and
    logs the move in it; the loser gets `RefConflict(expected, actual)`. `ended` are jobs that
    end with the move, or not at all (`LeaseLost`, and the head stays). The log has no
    late-comers: once a number was read, no smaller one appears. Creation is logged too.
    New blocks continue a block that is here (`BlockNotFound`) or nothing at all.
    `of` is the dataset as it was created then: of one that was forgotten and made again in
    the meantime, objects that had been here are gone (`DatasetNotFound`).
    Absent: `DatasetNotFound`, or `RefNotFound` for another name than `head`.
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
        """As `move`, of different datasets and in one transaction; what each would have raised.
        One that is refused keeps none of the others from moving."""

    def moves(
        self, *, after: int, limit: int = 100, since: Instant | None = None
    ) -> Sequence[HeadMoved]:
        """Lines of the log behind number `after`, oldest first; those of `since` and later."""

    def log_end(self) -> int:
        """The largest number of the log, 0 while it is empty; no smaller one appears after it."""

    def newest_moves(self, *, before: int | None = None, limit: int = 100) -> Sequence[HeadMoved]:
        """Lines of the log, newest first, those with smaller numbers than `before`. To look at,
        not to follow: the newest may still be missing."""

    def prune(self, dataset: DatasetId, *, heads: Sequence[Multihash]) -> int:
        """Forget the blocks that none of `heads` leads to; returns how many.

        The first of `heads` has to be the head (`RefConflict`). What was forgotten can be
        continued no more: `move` refuses.
        """


class RefIndex(Heads, HeadMoves, Protocol):
    """Both; those who use one name the part that they need."""


class BlockIndex(Protocol):
    """Blocks with their raw bytes, so that chains are read by range and not one by one."""

    def find(self, dataset: DatasetId, block: Multihash) -> HashedBlock | None: ...
    def ancestors(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[HashedBlock]:
        """`start` and the blocks before it, newest first, following `prev`.

        Stops below sequence number `down_to`, or after `limit`. Unknown start: empty.
        """

    def raw(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0, limit: int = 1000
    ) -> Sequence[tuple[Multihash, bytes]]:
        """As `ancestors`: hash and bytes of each; nothing is decoded or hashed."""

    def lineage(
        self, dataset: DatasetId, start: Multihash, *, down_to: int = 0
    ) -> Iterator[Multihash]:
        """Hashes of `start` and everything before it, newest first; nothing is decoded."""

    def count(self, dataset: DatasetId) -> int:
        """How many blocks are here, on all branches."""

    def owner(self, block: Multihash) -> DatasetId | None:
        """The dataset that has this block, on whatever branch; None: no dataset of this node."""


class BlocksBehind(Protocol):
    """Chains read onwards, by those who follow them."""

    def behind(
        self, dataset: DatasetId, block: Multihash | None, head: Multihash, *, limit: int = 1000
    ) -> Sequence[HashedBlock] | None:
        """The blocks behind `block` (None: all) on the way to `head`, oldest first, the first
        `limit` of them. None where `block` is not `head` or one of its ancestors, or is not here.
        """
