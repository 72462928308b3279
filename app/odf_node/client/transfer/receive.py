"""The checks of every pull before it moves a head, for both protocols.

The port to which a transfer reports its progress. Several threads may call it.

Read chains backwards and compare two of them; every block is checked against its hash.

Two chains are read backwards in parallel, aligned by sequence number, to their last common block or
to their ends. Fetched blocks are cached, so that a pull does not fetch them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Literal, Protocol

from odf_protocol.chain.rules import fold_received
from odf_protocol.codec.blocks import decode_block
from odf_protocol.errors import Conflict, Damaged, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import AddData, ExecuteTransform, HashedBlock, Seed
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.runtime.clock import without_garbage_collection
from odf_storage.stores.ports.values import ObjectKind

from ..nodes.limits import LIMITS, ClientLimits, too_much
from ..nodes.repositories import Repository


class Progress(Protocol):
    """Receives progress. `expect_*` announce amounts, possibly several times."""

    def expect_blocks(self, count: int) -> None: ...
    def expect_objects(self, count: int, size: int) -> None: ...
    def block(self) -> None: ...
    def object_bytes(self, size: int) -> None: ...
    def object_done(self) -> None: ...
    def committing(self) -> None:
        """Everything was sent; the peer now checks and commits it, which may take long."""


class Unwatched:
    """Ignores all progress."""

    def expect_blocks(self, count: int) -> None: ...
    def expect_objects(self, count: int, size: int) -> None: ...
    def block(self) -> None: ...
    def object_bytes(self, size: int) -> None: ...
    def object_done(self) -> None: ...
    def committing(self) -> None: ...


UNWATCHED: Progress = Unwatched()


class BlockMissing(Damaged):
    """The repository does not have a block of its own chain."""

    def __init__(self, block: Multihash, where: str) -> None:
        super().__init__(f"block {block} is missing in {where}", block=str(block), at=where)


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
            raise too_much("the number of blocks", self._limits.blocks)
        try:
            raw = self.source.block_bytes(block_hash)
        except NotFound as error:
            raise BlockMissing(block_hash, self.source.name) from error
        self._bytes += len(raw)
        if self._bytes > self._limits.metadata_bytes:
            raise too_much("the metadata of the dataset", self._limits.metadata_bytes)
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
            raise Damaged("NoSeed", "the chain does not begin with a Seed")
        return seed.dataset_id

    def before(self, block: HashedBlock) -> HashedBlock | None:
        """Return the block before this one, or None at the Seed."""
        if block.prev is None:
            return None
        previous = self.block(block.prev)
        if previous.sequence_number != block.sequence_number - 1:
            raise Damaged(
                "BlockOutOfOrder",
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


class DestinationAhead(Conflict):
    """The destination has blocks that the source lacks; the ancestor is the source's head."""

    def __init__(self, count: int, ancestor: HashedBlock | None = None) -> None:
        detail = ""
        if ancestor is not None:
            detail = f" after block #{ancestor.sequence_number} {ancestor.hash}"
        super().__init__(
            f"the destination is ahead of the source by {count} block(s){detail}; "
            "use --force to replace it",
            blocks=count,
            ancestor=None if ancestor is None else str(ancestor.hash),
            ancestor_number=None if ancestor is None else ancestor.sequence_number,
        )


class Diverged(Conflict):
    """Source and destination have different histories. The ancestor is their last common block."""

    def __init__(
        self,
        *,
        source: int | None = None,
        destination: int | None = None,
        ancestor: HashedBlock | None = None,
    ) -> None:
        detail = ""
        if ancestor is not None:
            detail = f" after block #{ancestor.sequence_number} {ancestor.hash}"
        if source is not None:
            detail += f": {source} block(s) only in the source, {destination} only here"
        super().__init__(
            f"source and destination diverged{detail}; use --force to replace the destination",
            uncommon_in_source=source,
            uncommon_in_destination=destination,
            ancestor=None if ancestor is None else str(ancestor.hash),
            ancestor_number=None if ancestor is None else ancestor.sequence_number,
        )


def seed_overwrite() -> Conflict:
    """The Seeds differ; force replaces the history, but never the identity of a dataset."""
    return Conflict(
        "SeedOverwrite",
        "the destination holds another dataset: its Seed differs in id or kind, "
        "and force does not overwrite a Seed",
    )


def object_size_mismatch(needed: NeededObject, actual: int, *, at_least: bool = False) -> Damaged:
    """An object is longer or shorter than its block says."""
    return Damaged(
        "ObjectSizeMismatch",
        f"{needed.name} has {'more than ' if at_least else ''}{actual} bytes, "
        f"its block says {needed.size}",
        object=needed.name,
        expected=needed.size,
        actual=actual,
    )


class SourceObjectMissing(Damaged):
    """The source is corrupted: it does not have an object that its chain names."""

    def __init__(self, needed: NeededObject) -> None:
        word = "data" if needed.kind is ObjectKind.DATA else "checkpoint"
        super().__init__(
            f"Source {word} file is missing: {needed.hash}",
            object=needed.name,
        )


@contextmanager
def while_at(source: Repository, head: Multihash) -> Iterator[None]:
    """Convert a missing block or object into `SourceRewritten` if the source's head has moved.

    Raises:
        SourceRewritten: instead of `BlockMissing` or `SourceObjectMissing`.
    """
    try:
        yield
    except (BlockMissing, SourceObjectMissing) as missing:
        is_ours = missing.facts.get("at", source.name) != source.name
        now = None if is_ours else source.find_head()
        if now is None or now == head:
            raise
        raise Conflict(
            "SourceRewritten",
            f"the source moved from {head} to {now} while it was copied, and what the old "
            "head leads to is not all there any more; pull again",
            old_head=str(head),
            head=str(now),
        ) from missing


@dataclass(frozen=True, slots=True)
class NeededObject:
    """A data slice or checkpoint that a block names. `size` is in bytes."""

    kind: ObjectKind
    hash: Multihash
    size: int

    @property
    def name(self) -> str:
        return f"{self.kind.value} {self.hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a pull or push. `bytes` is the size of the transferred objects."""

    outcome: Literal["updated", "up-to-date"]
    old_head: Multihash | None
    new_head: Multihash
    blocks: int = 0
    objects: int = 0
    linked: int = 0
    """Number of objects that were fetched because rows link to them."""
    bytes: int = 0


def objects_of(blocks: Sequence[HashedBlock], limits: ClientLimits = LIMITS) -> list[NeededObject]:
    """Return every object that the blocks name, once, in chain order.

    Raises:
        ObjectSizeMismatch: two blocks give different sizes for one object.
        TooMuch: an object is larger than the limit.
    """
    found: dict[tuple[ObjectKind, Multihash], NeededObject] = {}
    for block in blocks:
        event = block.event
        if not isinstance(event, AddData | ExecuteTransform):
            continue
        named = []
        if event.new_data is not None:
            data = event.new_data
            named.append(NeededObject(ObjectKind.DATA, data.physical_hash, data.size))
        if event.new_checkpoint is not None:
            point = event.new_checkpoint
            named.append(NeededObject(ObjectKind.CHECKPOINT, point.physical_hash, point.size))
        for needed in named:
            if limits.object_bytes is not None and needed.size > limits.object_bytes:
                raise too_much(needed.name, limits.object_bytes)
            known = found.setdefault((needed.kind, needed.hash), needed)
            if known.size != needed.size:
                raise object_size_mismatch(known, needed.size)
    return list(found.values())


def check_same_seed(local: HashedBlock, received: HashedBlock) -> None:
    """Check the Seeds before force replaces the history. Raises `SeedOverwrite`."""
    mine, theirs = local.event, received.event
    if not isinstance(mine, Seed) or not isinstance(theirs, Seed) or mine != theirs:
        raise seed_overwrite()


def check_continues(local: Sequence[HashedBlock], new: Sequence[HashedBlock]) -> None:
    """Check the whole chain by the rules for received blocks. Raises `ChainRuleBroken`."""
    fold_received(new, fold_received(local))


def check_follows(
    local: Repository,
    new: Sequence[HashedBlock],
    *,
    old: Multihash | None,
    force: bool,
    limits: ClientLimits,
) -> None:
    """Check that `new` may follow the chain of `local` up to `old`; with `force` a whole chain may
    replace it. Raises `SeedOverwrite`, `ChainRuleBroken`."""
    known = [] if old is None else ChainReader(local, limits=limits).chain(old)
    if force and known and begins_anew(new):
        check_same_seed(known[0], new[0])
        known = []
    check_continues(known, new)


def begins_anew(new: Sequence[HashedBlock]) -> bool:
    """Return whether the blocks are a whole chain and no continuation."""
    return new[0].prev is None


def _other_dataset(found: Comparison) -> bool:
    """Whether two chains without a common block are of two datasets, by their Seeds."""
    return found.source_only[0].event != found.destination_only[0].event


def refuse_uncommon(found: Comparison) -> None:
    """Raise `DestinationAhead` or `Diverged` if the source lacks blocks of the destination."""
    match found.relation:
        case Relation.BEHIND:
            raise DestinationAhead(len(found.destination_only), found.ancestor)
        case Relation.DIVERGED if found.ancestor is None and _other_dataset(found):
            raise seed_overwrite()
        case Relation.DIVERGED:
            raise Diverged(
                source=len(found.source_only),
                destination=len(found.destination_only),
                ancestor=found.ancestor,
            )
