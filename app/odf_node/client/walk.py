"""Read chains backwards and compare two of them; every block is checked against its hash.

Two chains are read backwards in parallel, aligned by sequence number, to their last common block or
to their ends. Fetched blocks are cached, so that a pull does not fetch them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from odf_protocol.codec.blocks import decode_block
from odf_protocol.errors import Damaged, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import Seed
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.runtime.garbage_collection import without_garbage_collection

from .limits import LIMITS, ClientLimits, TooMuch
from .progress import UNWATCHED, Progress
from .repositories import Repository


class BlockOutOfOrder(Damaged):
    """The number of a block does not fit the block after it."""


class BlockMissing(Damaged):
    """The repository does not have a block of its own chain."""

    def __init__(self, block: Multihash, where: str) -> None:
        super().__init__(f"block {block} is missing in {where}", block=str(block), at=where)


class NoSeed(Damaged):
    """The chain does not begin with a Seed, so its dataset is unknown."""


def mismatch(error: HashMismatch, what: str, **names: object) -> HashMismatch:
    """Return the mismatch with the name of the block or object."""
    named = HashMismatch(error.expected, error.actual, what)
    named.facts.update({key: str(value) for key, value in names.items()})
    return named


class ChainReader:
    """Reads the blocks of one repository: each is fetched once and checked."""

    def __init__(
        self,
        source: Repository,
        *,
        limits: ClientLimits = LIMITS,
        progress: Progress = UNWATCHED,
    ) -> None:
        self.source = source
        self._limits, self._progress = limits, progress
        self._seen: dict[Multihash, HashedBlock] = {}
        self._bytes = 0

    def block(self, block_hash: Multihash) -> HashedBlock:
        """Return a block. Raises `HashMismatch`, `BlockMissing`, `TooMuch`, `MalformedBlock`."""
        if (known := self._seen.get(block_hash)) is not None:
            return known
        if len(self._seen) >= self._limits.blocks:
            raise TooMuch("the number of blocks", self._limits.blocks)
        try:
            raw = self.source.block_bytes(block_hash)
        except NotFound as error:
            raise BlockMissing(block_hash, self.source.name) from error
        self._bytes += len(raw)
        if self._bytes > self._limits.metadata_bytes:
            raise TooMuch("the metadata of the dataset", self._limits.metadata_bytes)
        try:
            decoded = decode_block(raw, expected=block_hash)
        except HashMismatch as error:
            raise mismatch(
                error, f"block {block_hash} of {self.source.name}", block=block_hash
            ) from error
        self._seen[block_hash] = decoded
        self._progress.block()
        return decoded

    def dataset(self, head: Multihash) -> DatasetId:
        """Return the id of the dataset of the chain up to `head`. Raises `NoSeed`."""
        seed = self.chain(head)[0].event
        if not isinstance(seed, Seed):
            raise NoSeed("the chain does not begin with a Seed")
        return seed.dataset_id

    def before(self, block: HashedBlock) -> HashedBlock | None:
        """Return the block before this one, or None at the Seed."""
        if block.prev is None:
            return None
        previous = self.block(block.prev)
        if previous.sequence_number != block.sequence_number - 1:
            raise BlockOutOfOrder(
                f"block {block.hash} has number {block.sequence_number}, "
                f"but the one before it has {previous.sequence_number}",
                block=str(block.hash),
            )
        return previous

    def back(self, head: Multihash) -> Iterator[HashedBlock]:
        """Yield all blocks up to `head`, newest first."""
        at: HashedBlock | None = self.block(head)
        while at is not None:
            yield at
            at = self.before(at)

    def chain(self, head: Multihash, *, after: Multihash | None = None) -> list[HashedBlock]:
        """Return the blocks up to `head`, oldest first; only those after `after` if it is there."""
        with without_garbage_collection():
            found = list(takewhile(lambda block: block.hash != after, self.back(head)))
        found.reverse()
        return found


class Relation(Enum):
    """Relation of the source to the destination."""

    EQUAL = "equal"
    AHEAD = "ahead"
    BEHIND = "behind"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The blocks that only the source has, and that only the destination has; both oldest first."""

    source_only: tuple[HashedBlock, ...]
    destination_only: tuple[HashedBlock, ...]
    ancestor: HashedBlock | None = None
    """The last common block; None if there is none."""

    @property
    def relation(self) -> Relation:
        match bool(self.source_only), bool(self.destination_only):
            case False, False:
                return Relation.EQUAL
            case True, False:
                return Relation.AHEAD
            case False, True:
                return Relation.BEHIND
            case _:
                return Relation.DIVERGED


def compare(
    source: ChainReader, source_head: Multihash, destination: ChainReader, head: Multihash
) -> Comparison:
    """Walk both chains back to their last common block, if they have one."""
    ours: list[HashedBlock] = []
    theirs: list[HashedBlock] = []
    if source_head == head:
        return Comparison(source_only=(), destination_only=(), ancestor=source.block(head))
    left: HashedBlock | None = source.block(source_head)
    right: HashedBlock | None = destination.block(head)
    while (left and left.hash) != (right and right.hash):
        level = max(block.sequence_number for block in (left, right) if block)
        if left and left.sequence_number == level:
            ours.append(left)
            left = source.before(left)
        if right and right.sequence_number == level:
            theirs.append(right)
            right = destination.before(right)
    return Comparison(
        source_only=tuple(reversed(ours)), destination_only=tuple(reversed(theirs)), ancestor=left
    )
