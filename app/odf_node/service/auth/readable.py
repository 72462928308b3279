"""The filter by which the index lists only datasets that an actor may read: `grants` for all
datasets at once."""

from __future__ import annotations

from odf_protocol.identity import Name
from odf_storage.stores.ports.overview_values import Readable
from odf_storage.stores.ports.values import Reach, Scope

from ..setting_groups.words import AnonymousReads
from .actors import Actor


def readable(actor: Actor, reads: AnonymousReads) -> Readable:
    """Return a filter for the datasets that `grants` allows the actor to read."""
    if reads is AnonymousReads.ALL:
        return Readable(everything=True)
    signed = () if actor.reads is None else (actor.reads,)
    account = actor.account
    if account is None or not actor.may(Scope.READ):
        return Readable(datasets=signed)
    own = Name(account.name).folded
    match actor.reach:
        case Reach.NODE if account.is_admin:
            return Readable(everything=True)
        case Reach.NODE:
            return Readable(datasets=signed, account=own, roles_of=account.id)
        case Reach.ACCOUNT:
            return Readable(datasets=signed, account=own)
        case Reach.DATASET if account.is_admin and actor.dataset is not None:
            return Readable(datasets=(*signed, actor.dataset))
        case Reach.DATASET:
            return Readable(datasets=signed, account=own, roles_of=account.id, within=actor.dataset)
