"""Commits to several datasets at once: few syncs for all files, one transaction for all heads.

Each is a commit as `Dataset.commit` makes it, with the same order and a separate compare-and-swap;
the costs of transactions and of waiting for the disk are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.chain.state import ChainState
from odf_protocol.errors import NodeError, Unavailable
from odf_protocol.metadata.events import HashedBlock
from odf_protocol.multihash import Multihash

from ...stores.index.named_objects import NamedObject
from ...stores.ports import Objects
from ...stores.ports.values import HeadMove, JobEnd, ObjectKey, ObjectKind
from ..dataset.dataset import Dataset
from .stores import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """At least one block that continues `expected`, and the jobs that made the blocks."""

    dataset: Dataset
    blocks: Sequence[HashedBlock]
    expected: Multihash
    ended: Sequence[JobEnd] = ()
    slices: Sequence[tuple[Multihash, bytes]] = ()
    """Hash and bytes of small slices that the blocks name and that are put with them."""
    beyond_quota: bool = False
    """Whether a quota does not refuse it: it only takes rows back."""

    def judged(self) -> ChainState:
        """Check the commit and return the state after it. Raises the same errors as
        `Dataset.commit`."""
        coming = [NamedObject(ObjectKind.DATA, name, len(data)) for name, data in self.slices]
        return self.dataset.judge(self.blocks, self.expected, coming=coming)

    def data(self) -> list[tuple[ObjectKey, bytes]]:
        dataset, kind = self.dataset.id, ObjectKind.DATA
        return [(ObjectKey(dataset, kind, name), content) for name, content in self.slices]

    def chain(self) -> list[tuple[ObjectKey, bytes]]:
        dataset, kind = self.dataset.id, ObjectKind.BLOCK
        return [(ObjectKey(dataset, kind, block.hash), block.raw) for block in self.blocks]

    def move(self) -> HeadMove:
        return HeadMove(
            self.dataset.id,
            expected=self.expected,
            new=self.blocks[-1].hash,
            blocks=tuple(self.blocks),
            ended=tuple(self.ended),
            of=self.dataset.entry,
            beyond_quota=self.beyond_quota,
        )


@dataclass(slots=True)
class _Attempt:
    """The progress of a commit: the state it leads to, or the error that refused it."""

    commit: Commit
    state: ChainState | None = None
    refused: NodeError | None = None

    def judge(self) -> None:
        try:
            self.state = self.commit.judged()
        except NodeError as error:
            self.refused = error


def commit_all(stores: Stores, commits: Sequence[Commit]) -> list[NodeError | None]:
    """Commit to different datasets. Return for each the error `Dataset.commit` would raise, or
    None.

    Raises errors that concern all datasets: the database or the object store is unavailable.
    """
    if not commits:
        return []
    attempts = [_Attempt(commit) for commit in commits]
    for each in attempts:
        each.judge()
    _put(stores.objects, _good(attempts))
    moving = _good(attempts)
    refusals = stores.refs.move_all([each.commit.move() for each in moving]) if moving else ()
    for each, refused in zip(moving, refusals, strict=True):
        each.refused = refused
    moved = _good(attempts)
    for each in moved:
        if each.state is not None:
            stores.states.keep(each.commit.dataset.id, each.state, folded=len(each.commit.blocks))
    stores.publish_heads([each.commit.dataset.id for each in moved])
    return [each.refused for each in attempts]


def _good(attempts: Sequence[_Attempt]) -> list[_Attempt]:
    return [each for each in attempts if each.refused is None]


def _put(objects: Objects, attempts: Sequence[_Attempt]) -> None:
    """Put the objects of all commits, slices before blocks. If that fails, put those of each commit
    alone, to find the one at fault."""
    data = [each for attempt in attempts for each in attempt.commit.data()]
    chain = [each for attempt in attempts for each in attempt.commit.chain()]
    try:
        objects.put_all([*data, *chain])
    except Unavailable:
        raise
    except NodeError as error:
        if len(attempts) == 1:
            attempts[0].refused = error
            return
        for attempt in attempts:
            _put(objects, [attempt])
