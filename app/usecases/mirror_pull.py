"""Mirrors at work: the first look at a remote, and the pull into the stores of this node.

Kept apart from `mirrors.py` because the client takes long to import.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from protocol.errors import NodeError, Refused
from protocol.metadata.block import HashedBlock
from protocol.metadata.events import Seed
from storage.contracts.mirror_job import MirrorReceipt
from storage.mirrors.values import Mirror, MirrorState, MirrorStatus
from storage.values import DatasetEntry, Variable

from ..client.first_block import first_block
from ..client.http import DatasetMissing
from ..client.progress import UNWATCHED, Progress
from ..client.receive import DestinationAhead, Diverged
from ..client.sync import pull_into
from ..client.urls import Location
from ..wiring import Node
from .mirror_target import NodeTarget
from .mirrors import TOKEN, MirrorAsked, RemoteUnusable, limits_of, mirror_of, owner_of_token


def first_look(node: Node, asked: MirrorAsked) -> tuple[HashedBlock, Seed]:
    """The Seed of what is to be mirrored. Raises `RemoteUnusable` and what a pull raises."""
    with _told_as_ours():
        return first_block(asked.remote, asked.token, limits=limits_of(node))


def pull_mirror(
    node: Node,
    entry: DatasetEntry,
    *,
    force: bool = False,
    progress: Progress = UNWATCHED,
) -> MirrorReceipt:
    """Bring the dataset to the head of its remote; what came of it is noted.

    Raises:
        NotAMirror, Diverged, DestinationAhead, SeedOverwrite, RemoteUnusable, TransferFailed,
        and what else a pull finds wrong with the remote.
    """
    mirror = mirror_of(node, entry)
    try:
        with _told_as_ours():
            outcome = pull_into(
                Location.parse(mirror.remote),
                NodeTarget(node, entry),
                token=_opened(node, mirror),
                force=force,
                limits=limits_of(node),
                progress=progress,
            )
    except NodeError as error:
        diverged = isinstance(error, Diverged | DestinationAhead)
        state = MirrorState.DIVERGED if diverged else MirrorState.FAILED
        _note(node, entry, state, type(error).__name__, error.message)
        raise
    _note(node, entry, MirrorState.CURRENT)
    return MirrorReceipt(
        outcome=outcome.outcome,
        prev_head=str(outcome.old_head),
        head=str(outcome.new_head),
        blocks=outcome.blocks,
        objects=outcome.objects,
        bytes=outcome.bytes,
    )


def _opened(node: Node, mirror: Mirror) -> str | None:
    """The token; it opens only for the dataset and the remote it was given for."""
    if mirror.sealed_token is None:
        return None
    key_id, _, sealed = mirror.sealed_token.partition(b":")
    secret = Variable(
        name=TOKEN, is_secret=True, value=sealed, updated_at=node.clock(), key_id=key_id.decode()
    )
    owner = owner_of_token(mirror.dataset, Location.parse(mirror.remote))
    return node.secret_keys.opened(owner, secret)


def _note(
    node: Node,
    entry: DatasetEntry,
    state: MirrorState,
    error: str | None = None,
    message: str | None = None,
) -> None:
    status = MirrorStatus(state=state, checked_at=node.clock(), error=error, message=message)
    node.stores.mirrors.note(entry.id, status)


@contextmanager
def _told_as_ours() -> Iterator[None]:
    """What the remote refuses, or does not have, is not what this node refuses or lacks."""
    try:
        yield
    except (Refused, DatasetMissing) as error:
        facts = {"reason": type(error).__name__}
        raise RemoteUnusable(f"the remote cannot be pulled: {error.message}", **facts) from error
