"""Transfers of mirrors: fetch the Seed of a remote, pull into the stores of this node, fetch single
objects.

They are not in `mirrors.py` because importing the client takes long.

The stores of this node as the target of a pull.

Creation of a mirror: a dataset with the Seed of its remote, and a job that fills it.

It is not in `mirrors.py` because importing the client takes long.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import BinaryIO

from odf_protocol.chain.rules import fold_received
from odf_protocol.errors import BadInput, NodeError, Refused
from odf_protocol.identity import DatasetRef
from odf_protocol.metadata.events import HashedBlock, Seed
from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.healing import note_healed
from odf_storage.datasets.job_payloads.heal_job import HealReceipt
from odf_storage.datasets.job_payloads.mirror_job import MirrorReceipt
from odf_storage.datasets.node.naming import refuse_reserved
from odf_storage.datasets.node.rights import remember_declared
from odf_storage.stores.ports.errors import AliasTaken, DatasetIdTaken
from odf_storage.stores.ports.following import MIRROR_TOKEN, Mirror, MirrorState, MirrorStatus
from odf_storage.stores.ports.values import (
    DatasetEntry,
    JobId,
    ObjectKey,
    ObjectKind,
    Visibility,
)

from ...client.nodes.http import DatasetMissing
from ...client.nodes.limits import ClientLimits
from ...client.nodes.remotes import Location
from ...client.transfer.receive import (
    UNWATCHED,
    DestinationAhead,
    Diverged,
    Progress,
    begins_anew,
    seed_overwrite,
)
from ...client.transfer.simple_pull import first_block
from ...client.transfer.sync import opened, pull_into
from ..auth.access import Unauthenticated, may_create
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from ..definitions.authors import InForce, note_author
from ..transfer.admission import Receiving, commit_received
from .mirrors import (
    MirrorAsked,
    Mirrors,
    keep_remote,
    mirror_of,
    parse_remote,
    submit_pull,
)


class NodeTarget:
    """A `Target` of the client: one dataset of this node. The job holds the lock of the dataset."""

    def __init__(self, receiving: Receiving, entry: DatasetEntry) -> None:
        self._receiving, self._stores, self._entry = receiving, receiving.stores, entry
        self._dataset = self._stores.dataset(DatasetRef(id=entry.id))

    @property
    def name(self) -> str:
        return str(self._entry.alias)

    def find_head(self) -> Multihash | None:
        return self._dataset.head()

    def head(self) -> Multihash:
        return self._dataset.head()

    def block_bytes(self, block: Multihash) -> bytes:
        return self._dataset.block(block).raw

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._dataset.open_object(kind, object_hash)

    def holds(self, kind: ObjectKind, object_hash: Multihash, size: int) -> bool:
        """Return whether the object is stored. Its hash was checked when it was stored. Renew it,
        so that it is not swept before the commit."""
        found = self._stores.objects.renew(ObjectKey(self._entry.id, kind, object_hash))
        return found is not None and found.size == size

    def put(self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]) -> object:
        return self._stores.objects.put(ObjectKey(self._entry.id, kind, object_hash), chunks)

    def put_all(self, objects: Sequence[tuple[ObjectKind, Multihash, bytes]]) -> None:
        keyed = [
            (ObjectKey(self._entry.id, kind, name), content) for kind, name, content in objects
        ]
        self._stores.objects.put_all(keyed)

    def check(
        self, new: Sequence[HashedBlock], *, old: Multihash | None, force: bool = False
    ) -> None:
        if not (force and begins_anew(new)):
            self._dataset.check(new, expected=old or self.head())
            return
        seed = new[0].event
        own = (self._entry.id, self._entry.kind)
        if not isinstance(seed, Seed) or (seed.dataset_id, seed.dataset_kind) != own:
            raise seed_overwrite()
        fold_received(new)

    def move_head(self, *, expected: Multihash | None, new: list[HashedBlock]) -> None:
        head = expected or self.head()
        before, first = InForce.of(self._dataset.state(head)), new[0]
        base = InForce() if first.prev is None else InForce.of(self._dataset.state(first.prev))
        note_author(self._stores, self._entry, before, base.after(new))
        commit_received(self._receiving, self._dataset, new, expected=head, force=begins_anew(new))
        state = self._dataset.state(new[-1].hash)
        remember_declared(self._stores.registry, self._entry.id, state)

    def locked(self) -> AbstractContextManager[None]:
        return nullcontext()


_log = logging.getLogger("odf.mirror")
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
            remote, token = parse_remote(mirror.remote), _opened(mirrors, mirror)
            outcome = pull_into(
                remote,
                NodeTarget(mirrors.receiving, entry),
                token=token,
                force=force,
                limits=mirrors.limits,
                progress=progress,
            )
    except NodeError as error:
        diverged = isinstance(error, Diverged | DestinationAhead)
        state = MirrorState.DIVERGED if diverged else MirrorState.FAILED
        _note(mirrors, entry, state, error.code, error.message)
        raise
    _note(mirrors, entry, MirrorState.CURRENT)
    for guest in mirrors.guests:
        try:
            guest(entry, remote, token)
        except NodeError as error:  # the chain has arrived
            _log.warning("mirror %s: %s: %s", entry.id, error.code, error.message)
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
    return mirrors.keys.text_of(mirror.token_owner, MIRROR_TOKEN, mirror.sealed_token)


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
        facts = {"reason": error.code}
        raise BadInput(
            "RemoteUnusable", f"the remote cannot be pulled: {error.message}", **facts
        ) from error


def create_mirror(
    mirrors: Mirrors,
    access: DatasetAccess,
    actor: Actor,
    asked: MirrorAsked,
    visibility: Visibility,
    *,
    look_s: float,
) -> tuple[DatasetEntry, JobId]:
    """Create a dataset with the Seed of the remote only, and submit the job that fills it. The
    remote is waited for `look_s` seconds at most.

    Raises:
        Unauthenticated, Unauthorized, ReservedName, AliasTaken, DatasetIdTaken, RemoteUnusable,
        TransferFailed, and other errors of a pull.
    """
    if actor.account is None:
        raise Unauthenticated
    alias = access.new_alias(actor, asked.name)
    may_create(actor, alias)
    refuse_reserved(alias)
    stores = mirrors.stores
    if stores.registry.find(DatasetRef(alias=alias)) is not None:
        raise AliasTaken(alias)
    message_s = min(mirrors.limits.message_s, look_s / 3)  # of the smart protocol, which has two
    limits = replace(mirrors.limits, whole_s=look_s, message_s=message_s, connect_s=message_s)
    block, seed = first_look(asked, limits)
    if stores.registry.find(DatasetRef(id=seed.dataset_id)) is not None:
        raise DatasetIdTaken(seed.dataset_id)
    entry = DatasetEntry(seed.dataset_id, alias, seed.dataset_kind, visibility, mirrors.clock())
    stores.create_dataset(entry, [block])
    try:
        keep_remote(mirrors, entry, asked.remote, asked.token)
    except BaseException:
        stores.forget_dataset(entry.id)
        raise
    return entry, submit_pull(mirrors, entry)
