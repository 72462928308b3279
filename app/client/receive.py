"""What every pull checks before it moves a head, whichever protocol brought the blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from odf_node.protocol.chain.rules import fold_received
from odf_node.protocol.errors import Conflict, Damaged
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import AddData, ExecuteTransform, Seed
from odf_node.protocol.multihash import Multihash
from odf_node.storage.stores.ports.values import ObjectKind

from .limits import LIMITS, ClientLimits, TooMuch
from .repositories import Repository
from .walk import BlockMissing, ChainReader, Comparison, Relation


class DestinationAhead(Conflict):
    """The destination has blocks the source does not have; the ancestor is the source's head."""

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
    """Source and destination went different ways. The ancestor is the last block both have."""

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


class SeedOverwrite(Conflict):
    """Force replaces history, never the identity of a dataset."""

    def __init__(self) -> None:
        super().__init__(
            "the destination holds another dataset: its Seed differs in id or kind, "
            "and force does not overwrite a Seed"
        )


class ObjectSizeMismatch(Damaged):
    """An object is longer or shorter than its block says."""

    def __init__(self, needed: NeededObject, actual: int, *, at_least: bool = False) -> None:
        super().__init__(
            f"{needed.name} has {'more than ' if at_least else ''}{actual} bytes, "
            f"its block says {needed.size}",
            object=needed.name,
            expected=needed.size,
            actual=actual,
        )


class SourceObjectMissing(Damaged):
    """The chain names an object that the source does not have: a corrupted source."""

    def __init__(self, needed: NeededObject) -> None:
        word = "data" if needed.kind is ObjectKind.DATA else "checkpoint"
        super().__init__(
            f"Source {word} file is missing: {needed.hash}",
            object=needed.name,
        )


class SourceRewritten(Conflict):
    """The source got another history while it was copied, and has cleared the old one away."""

    def __init__(self, before: Multihash, now: Multihash) -> None:
        super().__init__(
            f"the source moved from {before} to {now} while it was copied, and what the old "
            "head leads to is not all there any more; pull again",
            old_head=str(before),
            head=str(now),
        )


@contextmanager
def while_at(source: Repository, head: Multihash) -> Iterator[None]:
    """What a source lacks that has moved meanwhile is no damage.

    Raises:
        SourceRewritten: instead of what is missing.
    """
    try:
        yield
    except (BlockMissing, SourceObjectMissing) as missing:
        is_ours = missing.facts.get("at", source.name) != source.name
        now = None if is_ours else source.find_head()
        if now is None or now == head:
            raise
        raise SourceRewritten(head, now) from missing


@dataclass(frozen=True, slots=True)
class NeededObject:
    """A data slice or checkpoint named by a block. `size` in bytes."""

    kind: ObjectKind
    hash: Multihash
    size: int

    @property
    def name(self) -> str:
        return f"{self.kind.value} {self.hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a pull or push did. `bytes` counts objects that travelled."""

    outcome: Literal["updated", "up-to-date"]
    old_head: Multihash | None
    new_head: Multihash
    blocks: int = 0
    objects: int = 0
    linked: int = 0
    """Objects that came because rows link to them."""
    bytes: int = 0


def objects_of(blocks: Sequence[HashedBlock], limits: ClientLimits = LIMITS) -> list[NeededObject]:
    """Every object the blocks name, once, in chain order.

    Raises:
        ObjectSizeMismatch: one object is announced with two sizes.
        TooMuch: one is announced larger than is taken.
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
                raise TooMuch(needed.name, limits.object_bytes)
            known = found.setdefault((needed.kind, needed.hash), needed)
            if known.size != needed.size:
                raise ObjectSizeMismatch(known, needed.size)
    return list(found.values())


def check_same_seed(local: HashedBlock, received: HashedBlock) -> None:
    """Before history is replaced by force. Raises `SeedOverwrite`."""
    mine, theirs = local.event, received.event
    if not isinstance(mine, Seed) or not isinstance(theirs, Seed) or mine != theirs:
        raise SeedOverwrite


def check_continues(local: Sequence[HashedBlock], new: Sequence[HashedBlock]) -> None:
    """The whole chain by the rules for received ones. Raises `ChainRuleBroken`."""
    fold_received(new, fold_received(local))


def check_follows(
    local: Repository,
    new: Sequence[HashedBlock],
    *,
    old: Multihash | None,
    force: bool,
    limits: ClientLimits,
) -> None:
    """Whether `new` may follow the chain up to `old` that is read from `local`; with `force` a
    whole chain may replace it. Raises `SeedOverwrite`, `ChainRuleBroken`."""
    known = [] if old is None else ChainReader(local, limits=limits).chain(old)
    if force and known and begins_anew(new):
        check_same_seed(known[0], new[0])
        known = []
    check_continues(known, new)


def begins_anew(new: Sequence[HashedBlock]) -> bool:
    """Whether the blocks are a whole chain, and no continuation."""
    return new[0].prev is None


def refuse_uncommon(found: Comparison) -> None:
    """Whether the source may simply be followed. Raises `DestinationAhead`, `Diverged`."""
    match found.relation:
        case Relation.BEHIND:
            raise DestinationAhead(len(found.destination_only), found.ancestor)
        case Relation.DIVERGED:
            raise Diverged(
                source=len(found.source_only),
                destination=len(found.destination_only),
                ancestor=found.ancestor,
            )
