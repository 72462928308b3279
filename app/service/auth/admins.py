"""What only administrators do, and only by tokens that may do all their account may."""

from __future__ import annotations

from odf_node.storage.stores.ports.values import Account, Reach, Scope

from .access import Unauthenticated, Unauthorized
from .actors import Actor


def require_admin(actor: Actor) -> Account:
    """The administrator's account. Raises `Unauthenticated`, `Unauthorized`."""
    if actor.account is None:
        raise Unauthenticated
    if not actor.account.is_admin:
        raise Unauthorized("only administrators may see or do this")
    if actor.reach is not Reach.NODE or not actor.may(Scope.MANAGE):
        raise Unauthorized("this token may not do all that its account may; sign in with another")
    return actor.account
