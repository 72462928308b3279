"""The check for actions of administrators, which also need a token without restrictions."""

from __future__ import annotations

from odf_storage.stores.ports.values import Account, Reach, Scope

from .access import Unauthenticated, Unauthorized
from .actors import Actor


def require_admin(actor: Actor) -> Account:
    """Return the account of the actor, an administrator. Raises `Unauthenticated`,
    `Unauthorized`."""
    if actor.account is None:
        raise Unauthenticated
    if not actor.account.is_admin:
        raise Unauthorized("only administrators may see or do this")
    if actor.reach is not Reach.NODE or not actor.may(Scope.MANAGE):
        raise Unauthorized("this token may not do all that its account may; sign in with another")
    return actor.account
