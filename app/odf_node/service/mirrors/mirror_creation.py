"""Creation of a mirror: a dataset with the Seed of its remote, and a job that fills it.

It is not in `mirrors.py` because importing the client takes long.
"""

from __future__ import annotations

from dataclasses import replace

from odf_protocol.identity import DatasetRef
from odf_storage.datasets.node.naming import refuse_reserved
from odf_storage.stores.ports.errors import AliasTaken, DatasetIdTaken
from odf_storage.stores.ports.values import DatasetEntry, JobId, Visibility

from ..auth.access import Unauthenticated, may_create
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from .mirror_pull import first_look
from .mirrors import MirrorAsked, Mirrors, keep_remote, submit_pull


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
