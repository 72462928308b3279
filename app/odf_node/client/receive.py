"""The checks of every pull before it moves a head, for both protocols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from odf_protocol.chain.rules import fold_received
from odf_protocol.errors import Conflict, Damaged
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import AddData, ExecuteTransform, Seed
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import ObjectKind

from .limits import LIMITS, ClientLimits, TooMuch
from .repositories import Repository
from .walk import BlockMissing, ChainReader, Comparison, Relation


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


class SeedOverwrite(Conflict):
    """The Seeds differ; force replaces the history, but never the identity of a dataset."""

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
    """The source is corrupted: it does not have an object that its chain names."""

    def __init__(self, needed: NeededObject) -> None:
        word = "data" if needed.kind is ObjectKind.DATA else "checkpoint"
        super().__init__(
            f"Source {word} file is missing: {needed.hash}",
            object=needed.name,
        )


class SourceRewritten(Conflict):
    """The source's history was rewritten during the pull, and parts of the old one are gone."""

    def __init__(self, before: Multihash, now: Multihash) -> None:
        super().__init__(
            f"the source moved from {before} to {now} while it was copied, and what the old "
            "head leads to is not all there any more; pull again",
            old_head=str(before),
            head=str(now),
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
        raise SourceRewritten(head, now) from missing


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
                raise TooMuch(needed.name, limits.object_bytes)
            known = found.setdefault((needed.kind, needed.hash), needed)
            if known.size != needed.size:
                raise ObjectSizeMismatch(known, needed.size)
    return list(found.values())


def check_same_seed(local: HashedBlock, received: HashedBlock) -> None:
    """Check the Seeds before force replaces the history. Raises `SeedOverwrite`."""
    mine, theirs = local.event, received.event
    if not isinstance(mine, Seed) or not isinstance(theirs, Seed) or mine != theirs:
        raise SeedOverwrite


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
            raise SeedOverwrite
        case Relation.DIVERGED:
            raise Diverged(
                source=len(found.source_only),
                destination=len(found.destination_only),
                ancestor=found.ancestor,
            )
