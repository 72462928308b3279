"""Transfers of mirrors: fetch the Seed of a remote, pull into the stores of this node, fetch single
objects.

They are not in `mirrors.py` because importing the client takes long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odf_protocol.errors import NodeError, Refused
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.events import Seed
from odf_storage.datasets.integrity.healing import note_healed
from odf_storage.datasets.job_payloads.heal_job import HealReceipt
from odf_storage.datasets.job_payloads.mirror_job import MirrorReceipt
from odf_storage.stores.ports.mirror_values import Mirror, MirrorState, MirrorStatus
from odf_storage.stores.ports.values import DatasetEntry, ObjectKey, Variable

from ...client.first_block import first_block
from ...client.http import DatasetMissing
from ...client.limits import ClientLimits
from ...client.progress import UNWATCHED, Progress
from ...client.receive import DestinationAhead, Diverged
from ...client.sync import opened, pull_into
from ...client.urls import Location
from .mirror_target import NodeTarget
from .mirrors import (
    TOKEN,
    MirrorAsked,
    Mirrors,
    RemoteUnusable,
    mirror_of,
    owner_of_token,
    parse_remote,
)

REMOTE = "remote"
PIECE_BYTES = 1 << 20


def first_look(asked: MirrorAsked, limits: ClientLimits) -> tuple[HashedBlock, Seed]:
    """Fetch the Seed of the remote. Raises `RemoteUnusable`, and the errors of a pull."""
    with _told_as_ours():
        return first_block(asked.remote, asked.token, limits=limits)


def pull_mirror(
    mirrors: Mirrors,
    entry: DatasetEntry,
    *,
    force: bool = False,
    progress: Progress = UNWATCHED,
) -> MirrorReceipt:
    """Bring the dataset to the head of its remote, and store the outcome as the mirror's status.

    Raises:
        NotAMirror, Diverged, DestinationAhead, SeedOverwrite, RemoteUnusable, TransferFailed,
        and other errors of a pull.
    """
    mirror = mirror_of(mirrors.stores.mirrors, entry)
    try:
        with _told_as_ours():
            outcome = pull_into(
                parse_remote(mirror.remote),
                NodeTarget(mirrors.receiving, entry),
                token=_opened(mirrors, mirror),
                force=force,
                limits=mirrors.limits,
                progress=progress,
            )
    except NodeError as error:
        diverged = isinstance(error, Diverged | DestinationAhead)
        state = MirrorState.DIVERGED if diverged else MirrorState.FAILED
        _note(mirrors, entry, state, type(error).__name__, error.message)
        raise
    _note(mirrors, entry, MirrorState.CURRENT)
    return MirrorReceipt(
        outcome=outcome.outcome,
        prev_head=str(outcome.old_head),
        head=str(outcome.new_head),
        blocks=outcome.blocks,
        objects=outcome.objects,
        bytes=outcome.bytes,
    )


def fetch_object(mirrors: Mirrors, key: ObjectKey) -> HealReceipt:
    """Fetch an object of a mirror from the remote, because it is damaged or missing here. Its hash
    is checked as it arrives.

    Raises:
        NotAMirror, RemoteUnusable, TransferFailed, HashMismatch, and other errors of a pull.
    """
    entry = mirrors.stores.registry.get(DatasetRef(id=key.dataset))
    mirror = mirror_of(mirrors.stores.mirrors, entry)
    remote, token = Location.parse(mirror.remote), _opened(mirrors, mirror)
    with (
        _told_as_ours(),
        opened(remote, token, limits=mirrors.limits) as repository,
        repository.open_object(key.kind, key.hash) as stream,
    ):
        mirrors.stores.objects.put(key, iter(lambda: stream.read(PIECE_BYTES), b""))
    note_healed(mirrors.stores, key, REMOTE)
    return HealReceipt(kind=key.kind.value, hash=str(key.hash), healed_from=REMOTE)


def _opened(mirrors: Mirrors, mirror: Mirror) -> str | None:
    """Unseal the token for the remote. It is sealed for one dataset and one remote."""
    if mirror.sealed_token is None:
        return None
    key_id, _, sealed = mirror.sealed_token.partition(b":")
    secret = Variable(
        name=TOKEN, is_secret=True, value=sealed, updated_at=mirrors.clock(), key_id=key_id.decode()
    )
    owner = owner_of_token(mirror.dataset, Location.parse(mirror.remote))
    return mirrors.keys.opened(owner, secret)


def _note(
    mirrors: Mirrors,
    entry: DatasetEntry,
    state: MirrorState,
    error: str | None = None,
    message: str | None = None,
) -> None:
    status = MirrorStatus(state=state, checked_at=mirrors.clock(), error=error, message=message)
    mirrors.stores.mirrors.note(entry.id, status)


@contextmanager
def _told_as_ours() -> Iterator[None]:
    """Turn refusals and missing datasets of the remote into `RemoteUnusable`, so that they do not
    look like refusals of this node."""
    try:
        yield
    except (Refused, DatasetMissing) as error:
        facts = {"reason": type(error).__name__}
        raise RemoteUnusable(f"the remote cannot be pulled: {error.message}", **facts) from error
