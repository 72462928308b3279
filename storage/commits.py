"""Commits to several datasets at once: objects and blocks side by side, heads in one transaction.

Each is a commit as `Dataset.commit` makes it, with the same order and its own compare-and-swap;
what costs by the transaction and by the wait for the disk is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from protocol.chain.state import ChainState
from protocol.errors import NodeError
from protocol.metadata.block import HashedBlock
from protocol.multihash import Multihash

from .dataset import Dataset
from .stores import Stores
from .values import HeadMove, JobEnd

AT_ONCE = 8
"""Datasets whose files are synced at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Blocks that continue `expected`, at least one, and the jobs whose work they are."""

    dataset: Dataset
    blocks: Sequence[HashedBlock]
    expected: Multihash
    ended: Sequence[JobEnd] = ()
    put_objects: Callable[[], None] = lambda: None
    """Puts what the blocks name."""


def commit_all(stores: Stores, commits: Sequence[Commit]) -> list[NodeError | None]:
    """Commit to different datasets; what each `Dataset.commit` would have raised.

    Raises what is not about one dataset: the database or the object store is away.
    """
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="commits") as pool:
        ready = list(pool.map(_prepared, commits))
    wanted = [
        HeadMove(
            commit.dataset.id,
            expected=commit.expected,
            new=commit.blocks[-1].hash,
            blocks=tuple(commit.blocks),
            ended=tuple(commit.ended),
            of=commit.dataset.entry,
        )
        for commit, state in zip(commits, ready, strict=True)
        if isinstance(state, ChainState)
    ]
    told = iter(stores.refs.move_all(wanted)) if wanted else iter(())
    refused = [next(told) if isinstance(state, ChainState) else state for state in ready]
    moved = []
    for commit, state, error in zip(commits, ready, refused, strict=True):
        if error is None and isinstance(state, ChainState):
            stores.states.keep(commit.dataset.id, state, folded=len(commit.blocks))
            moved.append(commit.dataset.id)
    stores.mirror_heads(moved)
    return refused


def _prepared(commit: Commit) -> ChainState | NodeError:
    try:
        commit.put_objects()
        return commit.dataset.prepare(commit.blocks, commit.expected)
    except NodeError as error:
        return error
