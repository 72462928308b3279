"""Mirrors at work: the first look at a remote, and the pull into the stores of this node.

Kept apart from `mirrors.py` because the client takes long to import.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odf_node.protocol.errors import NodeError, Refused
from odf_node.protocol.identity import DatasetRef
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.metadata.events import Seed
from odf_node.storage.datasets.integrity.healing import note_healed
from odf_node.storage.datasets.job_payloads.heal_job import HealReceipt
from odf_node.storage.datasets.job_payloads.mirror_job import MirrorReceipt
from odf_node.storage.stores.ports.mirror_values import Mirror, MirrorState, MirrorStatus
from odf_node.storage.stores.ports.values import DatasetEntry, ObjectKey, Variable

from ...client.first_block import first_block
from ...client.http import DatasetMissing
from ...client.progress import UNWATCHED, Progress
from ...client.receive import DestinationAhead, Diverged
from ...client.sync import opened, pull_into
from ...client.urls import Location
from ..wiring import Node
from .mirror_target import NodeTarget
from .mirrors import (
    TOKEN,
    MirrorAsked,
    RemoteUnusable,
    limits_of,
    mirror_of,
    owner_of_token,
    parse_remote,
)

REMOTE = "remote"
PIECE_BYTES = 1 << 20


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
                parse_remote(mirror.remote),
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


def fetch_object(node: Node, key: ObjectKey) -> HealReceipt:
    """An object of a mirror that is not whole here, from the remote; hashed as it comes.

    Raises:
        NotAMirror, RemoteUnusable, TransferFailed, HashMismatch, …: as a pull.
    """
    mirror = mirror_of(node, node.stores.registry.get(DatasetRef(id=key.dataset)))
    remote, token = Location.parse(mirror.remote), _opened(node, mirror)
    with (
        _told_as_ours(),
        opened(remote, token, limits=limits_of(node)) as repository,
        repository.open_object(key.kind, key.hash) as stream,
    ):
        node.stores.objects.put(key, iter(lambda: stream.read(PIECE_BYTES), b""))
    note_healed(node.stores, key, REMOTE)
    return HealReceipt(kind=key.kind.value, hash=str(key.hash), healed_from=REMOTE)


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
