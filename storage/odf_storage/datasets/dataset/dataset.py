"""A dataset: its chain, its objects, and the one way to append to it.

A commit writes bytes first and the pointer last: it checks that every named object exists, writes
the blocks, then moves the head by compare-and-swap. Whatever happens in between, readers see the
old head or the new one; anything written too early is unreferenced and harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from odf_protocol.chain.rules import fold_received as fold
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.errors import BadInput, Conflict
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.events import HashedBlock, Seed
from odf_protocol.multihash import Multihash

from ...stores.index.named_objects import NamedObject, named_objects
from ...stores.ports import Objects, ObjectStore
from ...stores.ports.errors import BlockNotFound as BlockNotFound
from ...stores.ports.errors import RefConflict
from ...stores.ports.keyed import LinkSource
from ...stores.ports.values import DatasetEntry, JobEnd, ObjectKey, ObjectKind
from ..contents.claims import SliceClaim, slice_claims
from ..integrity.healing import HealingStores
from ..integrity.opening import copy_hashed, ensure_hashed, hashed_files, is_whole_file, open_hashed
from .state_cache import CachedChain, StateCache, page_starts

if TYPE_CHECKING:
    from ...stores.index.sql import RefIndex

FORCE_TRIES = 100
"""How often a forced commit overwrites a concurrent move of the head before it gives up."""


class InvalidInterval(BadInput):
    """The tail of an interval is no ancestor of its head, so the histories differ."""

    def __init__(self, head: Multihash, tail: Multihash) -> None:
        super().__init__(
            f"block {tail} is not among the ancestors of {head}", head=str(head), tail=str(tail)
        )
        self.head, self.tail = head, tail


def object_missing(named: NamedObject, block: Multihash) -> BadInput:
    """A block names an object that was not stored before."""
    return BadInput(
        "ObjectMissing",
        f"block {block} names the {named.kind} object {named.hash}, which is not here; "
        "put the object first",
        kind=str(named.kind),
        hash=str(named.hash),
        block=str(block),
    )


def size_mismatch(named: NamedObject, block: Multihash, actual: int) -> BadInput:
    """A block declares a size for an object that differs from its real size. Sizes are in bytes."""
    return BadInput(
        "SizeMismatch",
        f"block {block} declares {named.size} bytes for the {named.kind} object "
        f"{named.hash}, which has {actual}",
        kind=str(named.kind),
        hash=str(named.hash),
        block=str(block),
        expected=named.size,
        actual=actual,
    )


class SeedBlockOverwriteRestricted(Conflict):
    """A forced commit would turn the dataset into another one."""

    def __init__(self, dataset: DatasetId) -> None:
        super().__init__(
            f"a forced commit to {dataset} has to begin with a Seed of the same id and kind",
            dataset_id=str(dataset),
        )


class DatasetStores(HealingStores, Protocol):
    """The stores that a dataset needs: part of `storage.datasets.node.stores.Stores`."""

    @property
    def objects(self) -> ObjectStore: ...
    @property
    def refs(self) -> RefIndex: ...
    @property
    def states(self) -> StateCache: ...
    def publish_head(self, dataset: DatasetId) -> None: ...


Gate = Callable[["Dataset", Sequence[SliceClaim]], None]
"""The check that received slices have to pass: `hold` of a `SliceGate`."""


class Dataset:
    """One dataset of this node. It is cheap to make and keeps only its entry."""

    def __init__(self, entry: DatasetEntry, stores: DatasetStores) -> None:
        self.entry = entry
        self.id = entry.id
        self._stores = stores

    def head(self) -> Multihash:
        """Return the hash of the newest block. Raises `DatasetNotFound` once the dataset is
        forgotten."""
        return self._stores.refs.head(self.id)

    def block(self, block: Multihash) -> HashedBlock:
        """Return one block of this dataset, on any branch. Raises `BlockNotFound`."""
        found = self._stores.blocks.find(self.id, block)
        if found is None:
            raise BlockNotFound(block)
        return found

    def blocks(
        self, *, after: Multihash | None = None, upto: Multihash | None = None
    ) -> list[HashedBlock]:
        """Return the blocks of `(after, upto]`, oldest first; by default the whole chain.

        Raises:
            BlockNotFound: `upto` is not here.
            InvalidInterval: `after` is no ancestor of `upto`.
        """
        return [block for page in self.pages(after=after, upto=upto) for block in page]

    def pages(
        self, *, after: Multihash | None = None, upto: Multihash | None = None
    ) -> Iterator[list[HashedBlock]]:
        """Yield the same blocks as `blocks`, with at most `PAGE` of them in memory at a time."""
        yield from self.along(self._interval(after, upto or self.head()))

    def path(
        self, *, after: Multihash | None = None, upto: Multihash | None = None
    ) -> list[Multihash]:
        """Return the hashes of the same interval, newest first. Raises the same errors as
        `blocks`."""
        return self._interval(after, upto or self.head())

    def raw_pages(self, path: Sequence[Multihash]) -> Iterator[list[tuple[Multihash, bytes]]]:
        """Yield hash and bytes of the blocks of a `path`, oldest first, without decoding them."""
        for start, count in page_starts(path):
            yield list(reversed(self._stores.blocks.raw(self.id, start, limit=count)))

    def state(self, head: Multihash | None = None) -> ChainState:
        """Return the state as `CachedChain.state` does, by reads that share no transaction."""
        return self._chain().state(head)

    def check(self, blocks: Sequence[HashedBlock], *, expected: Multihash) -> None:
        """Check that a commit on `expected` would keep the rules. Raises `ChainRuleBroken`."""
        state = fold(blocks, self.state(expected))
        self._stores.states.put(self.id, blocks[-1].hash, state)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        """Open an object of this dataset without hashing its bytes. Raises `ObjectNotFound`."""
        return self._stores.objects.open(ObjectKey(self.id, kind, object_hash))

    def open_whole(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        """Open an object of this dataset whose bytes were hashed. Raises the same errors as
        `open_hashed`."""
        return open_hashed(self._stores, ObjectKey(self.id, kind, object_hash))

    def whole_file(self, kind: ObjectKind, object_hash: Multihash, copy: Path) -> Path:
        """Return an object as a file whose bytes were hashed: the file of a local store, else
        `copy`, which may exist already. Raises the same errors as `open_whole`."""
        return self.whole_object(ObjectKey(self.id, kind, object_hash), copy)

    def whole_object(self, key: ObjectKey, copy: Path) -> Path:
        """Do the same as `whole_file` for an object of this dataset by its key."""
        if copy.exists() and is_whole_file(self._stores, copy, key.hash):
            return copy
        return copy_hashed(self._stores, key, copy)

    def local_files(self, kind: ObjectKind, names: Iterable[Multihash]) -> list[str] | None:
        """Return the paths of several objects whose bytes were hashed; None if the store does not
        keep them as files on this machine. Raises the same errors as `open_whole`."""
        local = self._stores.objects.local_paths
        return None if local is None else hashed_files(self._stores, local, self.id, kind, names)

    def link_source(self, kind: ObjectKind, object_hash: Multihash) -> LinkSource:
        """Return where the bytes of an object are stored, after they were hashed, for a store that
        takes them over unchanged. Raises the same errors as `open_hashed`."""
        key = ObjectKey(self.id, kind, object_hash)
        ensure_hashed(self._stores, key)
        objects = self._stores.objects
        paths = objects.local_paths
        return LinkSource(
            open=lambda: self.open_whole(kind, object_hash),
            path=None if paths is None else paths.path(key).absolute(),
            place=objects.copy_source(key),
            object_hash=object_hash,
        )

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        """Check that the objects exist with the given sizes; bytes are read only if one does not.

        Raises:
            ObjectDamaged, ObjectHealing: for the first object that is wrong and cannot be healed
                now.
        """
        for object_hash, size in wanted:
            key = ObjectKey(self.id, kind, object_hash)
            info = self._stores.objects.stat(key)
            if info is None or info.size != size:
                ensure_hashed(self._stores, key)

    def commit(
        self,
        blocks: Sequence[HashedBlock],
        *,
        expected: Multihash,
        force: bool = False,
        ended: Sequence[JobEnd] = (),
        gate: Gate | None = None,
        beyond_quota: bool = False,
    ) -> None:
        """Append blocks (oldest first) to `expected`; with `force`, replace any head.

        `ended` are the jobs that did this work: they end with the commit, or not at all. Received
        slices have to pass the `gate`; slices that a worker of this node made need no gate. Blocks
        that only take rows back may go `beyond_quota`.

        Forced blocks either begin with a Seed of this dataset's id and kind, or continue a block of
        this dataset. Nothing happens if there are no blocks, or if the last one is the head
        already.

        Raises:
            RefConflict: the head is not `expected` any more.
            ChainRuleBroken: the first broken rule.
            ObjectMissing, SizeMismatch: a named object is absent or has another size.
            DataDoesNotMatchMetadata: a slice is not what its block declares.
            BlockNotFound: forced blocks continue one that was removed.
            SeedBlockOverwriteRestricted: forced blocks belong to another dataset.
            DatasetNotFound: the dataset was forgotten, even if it was created again since.
            LeaseLost: the worker of one of the jobs has lost its lease.
            QuotaExceeded: of the account or the node.
        """
        if not blocks:
            return
        head, new = self.head(), blocks[-1].hash
        if head == new:
            self._stores.publish_head(self.id)
            return
        if not force and head != expected:
            raise RefConflict(expected, head)
        state = self.prepare(blocks, None if force else expected, gate)
        move = partial(self._stores.refs.move, self.id, beyond_quota=beyond_quota)
        self._move(move, blocks, head if force else expected, force=force, ended=ended)
        self._stores.states.keep(self.id, state, folded=len(blocks))
        self._stores.publish_head(self.id)

    def prepare(
        self,
        blocks: Sequence[HashedBlock],
        expected: Multihash | None,
        gate: Gate | None = None,
    ) -> ChainState:
        """Do all of a commit except the move of the head, and return the state after it.

        `expected` is None if the commit is forced. Raises the same errors as `commit`.
        """
        state = self.judge(blocks, expected, gate=gate)
        put_blocks(self._stores.objects, self.id, blocks)
        return state

    def judge(
        self,
        blocks: Sequence[HashedBlock],
        expected: Multihash | None,
        *,
        coming: Container[NamedObject] = (),
        gate: Gate | None = None,
    ) -> ChainState:
        """Check a commit as `prepare` does, without writing anything. `coming` are objects that the
        caller puts before the head moves."""
        state = self._state_after(blocks, expected)
        check_objects(self._stores.objects, self.id, blocks, coming=coming)
        if gate is not None and (claims := self.claims(blocks, expected)):
            gate(self, claims)
        return state

    def claims(self, blocks: Sequence[HashedBlock], expected: Multihash | None) -> list[SliceClaim]:
        """Return the claims of the slices in the blocks, which follow `expected`, or are forced if
        None."""
        if not any(
            named.kind is ObjectKind.DATA for one in blocks for named in named_objects(one.event)
        ):
            return []
        return list(slice_claims(blocks, self._base(blocks, expected)))

    def _state_after(self, blocks: Sequence[HashedBlock], expected: Multihash | None) -> ChainState:
        """Return the state after all blocks on `expected`, or forced if None. Raises as
        `commit`."""
        if expected is not None and is_chain(blocks, expected):
            known = self._stores.states.find(self.id, blocks[-1].hash)
            if known is not None:  # the push has checked them already
                return known
        return fold(blocks, self._base(blocks, expected))

    def _base(self, blocks: Sequence[HashedBlock], expected: Multihash | None) -> ChainState:
        return self._forced_base(blocks[0]) if expected is None else self.state(expected)

    def _move(
        self,
        move: Callable[..., None],
        blocks: Sequence[HashedBlock],
        expected: Multihash,
        *,
        force: bool,
        ended: Sequence[JobEnd],
    ) -> None:
        """Move the head by compare-and-swap. A forced move swaps against any head it finds."""
        new = blocks[-1].hash
        for attempt in range(FORCE_TRIES):
            try:
                move(expected=expected, new=new, blocks=blocks, ended=ended, of=self.entry)
                return
            except RefConflict as conflict:
                if not force or attempt == FORCE_TRIES - 1:
                    raise
                expected = conflict.actual

    def _forced_base(self, first: HashedBlock) -> ChainState:
        if first.prev is not None:
            # a cached state does not prove that the block exists
            return self.state(self.block(first.prev).hash)
        seed = first.event
        same = isinstance(seed, Seed) and (seed.dataset_id, seed.dataset_kind) == (
            self.id,
            self.entry.kind,
        )
        if not same:
            raise SeedBlockOverwriteRestricted(self.id)
        return EMPTY

    def _interval(self, after: Multihash | None, upto: Multihash) -> list[Multihash]:
        """Return the hashes of `(after, upto]`, newest first."""
        tail = self._stores.blocks.find(self.id, after) if after is not None else None
        if after is not None and tail is None:
            raise InvalidInterval(upto, after)
        down_to = tail.sequence_number if tail is not None else 0
        path = list(self._stores.blocks.lineage(self.id, upto, down_to=down_to))
        if not path:
            # an unknown block raises here; a known one that is older than the tail does not
            self.block(upto)
        if after is None:
            return path
        if not path or path[-1] != after:
            raise InvalidInterval(upto, after)
        return path[:-1]

    def along(self, path: Sequence[Multihash]) -> Iterator[list[HashedBlock]]:
        """Yield the blocks of a `path`, oldest first, with at most `PAGE` of them in memory at a
        time."""
        return self._chain().along(path)

    def _chain(self) -> CachedChain:
        its = self._stores
        return CachedChain(self.id, its.refs, its.blocks, its.states)


def is_chain(blocks: Iterable[HashedBlock], start: Multihash) -> bool:
    """Return whether each block names the one before it, and the first one names `start`."""
    for block in blocks:
        if block.prev != start:
            return False
        start = block.hash
    return True


def check_objects(
    objects: ObjectStore,
    dataset: DatasetId,
    blocks: Sequence[HashedBlock],
    *,
    coming: Container[NamedObject] = (),
) -> None:
    """Check that every object the blocks name exists with the declared size, except those in
    `coming`, which are about to be put. Each object counts as new again for garbage collection.

    Raises:
        ObjectMissing, SizeMismatch: for the first object that is wrong.
        HashMismatch: an upload by URL put other content.
    """
    for block in blocks:
        for named in named_objects(block.event):
            if named in coming:
                continue
            info = objects.settle(ObjectKey(dataset, named.kind, named.hash))
            if info is None:
                raise object_missing(named, block.hash)
            if info.size != named.size:
                raise size_mismatch(named, block.hash, info.size)


def put_blocks(objects: Objects, dataset: DatasetId, blocks: Sequence[HashedBlock]) -> None:
    """Write blocks as objects, with their bytes as received. Raises `HashMismatch`."""
    objects.put_blocks(dataset, ((block.hash, block.raw) for block in blocks))
