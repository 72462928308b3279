"""Authorization: `authorize` is the only function that decides whether an actor may do something
with a dataset.

The order of checks is part of the protocol, because every response reveals something:

    1  malformed bearer           400 text     (`actors.bearer_of`)
    2  anonymous not allowed      401 text     `admit`
    3  address is no name         400 empty    `address`
    4  no such dataset, no push   404 empty    `authorize` from here on
    5  bad token, push            401 text     whether there is a dataset or not
    6  bad token, not for all     404 empty    existence is hidden
    7  bad token, read by all     401 text
    8  may not read, no push      404 empty    existence is hidden
    9  may read, may not do this  403 empty
    10 no such dataset, push      None: the push may create it, if `may_create` says so
    11 may not read, push         None, too: existence is hidden; `may_create` refuses both

In lines 4 and 8 an actor that may read the dataset which had the name before is told its name of
today (`DatasetAccess.hidden`): 404 still, with a problem document.

The reference refuses a bad token before it checks whether the dataset is hidden (so 401 in line
6), and a push to a hidden dataset otherwise than one to a missing one, by which anybody can find
out which datasets exist. Here the header `WWW-Authenticate` in lines 4 and 6 informs a caller
whose token has expired.

The check for actions of administrators, which also need a token without restrictions.
"""

from __future__ import annotations

from enum import StrEnum

from odf_protocol.errors import BadInput, NotFound, Refused
from odf_protocol.identity import DatasetAlias, MalformedName, Name
from odf_storage.datasets.node.naming import SINGLE_OWNER
from odf_storage.stores.ports.values import Account, DatasetEntry, Reach, Role, Scope, Visibility

from ..setting_groups.words import AnonymousReads, Tenancy
from .actors import Actor, Reason


class Action(StrEnum):
    """An action on a dataset or a node that needs permission."""

    READ = "dataset:read"
    WRITE = "dataset:write"
    MAINTAIN = "dataset:maintain"
    OWN = "dataset:own"


EVERYTHING = frozenset(Action)
BY_ROLE: dict[Role, frozenset[Action]] = {
    Role.READER: frozenset({Action.READ}),
    Role.EDITOR: frozenset({Action.READ, Action.WRITE}),
    Role.MAINTAINER: frozenset({Action.READ, Action.WRITE, Action.MAINTAIN}),
}
SCOPE_FOR: dict[Action, Scope] = {
    Action.READ: Scope.READ,
    Action.WRITE: Scope.WRITE,
    Action.MAINTAIN: Scope.MANAGE,
    Action.OWN: Scope.MANAGE,
}
"""The scope that a token must have for an action, in addition to the rights of its account."""
INVALID_CHALLENGE = 'Bearer error="invalid_token"'
"""The challenge of RFC 6750 for a token that is unknown, revoked or expired."""


class AnonymousRestricted(Refused):
    """The node serves no anonymous requests."""

    def __init__(self) -> None:
        super().__init__("Anonymous account is restricted")


class DatasetHidden(NotFound):
    """The dataset does not exist, or the actor may not know that it does. For a bad token, the
    fact `challenge` has the value of `WWW-Authenticate`."""

    said = "no dataset has this name, or none that you may read"

    def __init__(self, reason: Reason = Reason.NONE_PROVIDED, **facts: object) -> None:
        challenge = INVALID_CHALLENGE if reason in _REFUSED_TOKEN else None
        super().__init__(self.said.format(**facts), challenge=challenge, **facts)


class DatasetRenamed(DatasetHidden):
    """The dataset has another name now, and the actor may read it. `location` is its URL, or its
    path if the node does not know its own URL."""

    said = "the dataset was renamed to {name}"

    def __init__(self, name: str, base: str, reason: Reason = Reason.NONE_PROVIDED) -> None:
        super().__init__(reason, name=name, location=base + name)


def token_invalid() -> Refused:
    return Refused("TokenInvalid", Reason.INVALID.value)


def token_expired() -> Refused:
    return Refused("TokenExpired", Reason.EXPIRED.value)


class ActionForbidden(Refused):
    """The actor may read the dataset, but not perform this action."""

    def __init__(self) -> None:
        super().__init__("this account may not do this, or no token was sent")


class Unauthenticated(Refused):
    """The request needs an account, and the caller is anonymous."""

    def __init__(self) -> None:
        super().__init__("Unauthenticated")


def unauthorized(why: str = "Unauthorized") -> Refused:
    """The account may not perform this action."""
    return Refused("Unauthorized", why)


_REFUSED_TOKEN = {Reason.INVALID: token_invalid, Reason.EXPIRED: token_expired}


class IsRemote(BadInput):
    """The dataset is a mirror: only its remote may add data to it."""

    def __init__(self) -> None:
        super().__init__("the dataset is a mirror; publish where it comes from")


def admit(actor: Actor, *, allow_anonymous: bool) -> None:
    """Apply the node's policy for anonymous requests. Raises `AnonymousRestricted`."""
    if actor.is_anonymous and not allow_anonymous:
        raise AnonymousRestricted


def address(tenancy: Tenancy, account: str | None, name: str) -> DatasetAlias:
    """Return the stored alias for path segments. Raises `MalformedAddress`."""
    try:
        owner = SINGLE_OWNER if tenancy is Tenancy.SINGLE else account or ""
        return DatasetAlias(Name(name), Name(owner))
    except MalformedName as broken:
        raise BadInput("MalformedAddress", broken.message) from None


def is_for_all(entry: DatasetEntry, reads: AnonymousReads) -> bool:
    """Return whether everybody may read the dataset."""
    return reads is AnonymousReads.ALL or entry.visibility is Visibility.PUBLIC


def grants(actor: Actor, entry: DatasetEntry, reads: AnonymousReads) -> frozenset[Action]:
    """Return all actions that the actor may perform on the dataset."""
    is_open = is_for_all(entry, reads) or actor.reads == entry.id
    allowed = BY_ROLE[Role.READER] if is_open else frozenset()
    if actor.account is None or not reaches(actor, entry):
        return allowed
    return allowed | {held for held in _held(actor, entry) if actor.may(SCOPE_FOR[held])}


def reaches(actor: Actor, entry: DatasetEntry) -> bool:
    """Return whether the reach of the token includes the dataset. If not, the actor has only the
    rights of everybody."""
    match actor.reach:
        case Reach.NODE:
            return True
        case Reach.ACCOUNT:
            return owns(actor, entry.alias)
        case Reach.DATASET:
            return actor.dataset == entry.id


def _held(actor: Actor, entry: DatasetEntry) -> frozenset[Action]:
    """Return all actions that the account may perform, whatever the token allows."""
    if actor.account is not None and (actor.account.is_admin or owns(actor, entry.alias)):
        return EVERYTHING
    role = actor.roles.get(entry.id)
    return BY_ROLE[role] if role is not None else frozenset()


def owns(actor: Actor, alias: DatasetAlias) -> bool:
    return actor.account is not None and Name(actor.account.name) == alias.account


def refuse_bad_token(actor: Actor) -> None:
    """Refuse a bad token where everybody may read. Raises `TokenInvalid`, `TokenExpired`."""
    if actor.reason in _REFUSED_TOKEN:
        raise _REFUSED_TOKEN[actor.reason]()


def authorize(
    actor: Actor,
    entry: DatasetEntry | None,
    action: Action,
    reads: AnonymousReads,
    *,
    creates: bool = False,
) -> DatasetEntry | None:
    """Return the entry if the actor may perform the action. With `creates`, for a push that may
    create the dataset, return None if there is no entry, or none that the actor may know of.

    Raises:
        DatasetHidden, TokenInvalid, TokenExpired, ActionForbidden: in the order of the table in
            the module docstring.
    """
    if creates:
        refuse_bad_token(actor)
    if entry is None:
        if creates:
            return None
        raise DatasetHidden(actor.reason)
    allowed = grants(actor, entry, reads)
    if Action.READ not in allowed:
        if creates:
            return None
        raise DatasetHidden(actor.reason)
    refuse_bad_token(actor)
    if action not in allowed:
        raise ActionForbidden
    return entry


def may_create(actor: Actor, alias: DatasetAlias) -> None:
    """Check that the actor may create a dataset with this alias: only in its own account.

    Raises:
        Unauthenticated: the actor is anonymous.
        Unauthorized: the alias is in another account, the token has no scope to create, or it
            is for a single dataset.
    """
    if actor.account is None:
        raise Unauthenticated
    is_lesser = actor.reach is Reach.DATASET or not actor.may(Scope.CREATE)
    if not owns(actor, alias) or is_lesser:
        raise unauthorized()


def require_admin(actor: Actor) -> Account:
    """Return the account of the actor, an administrator. Raises `Unauthenticated`,
    `Unauthorized`."""
    if actor.account is None:
        raise Unauthenticated
    if not actor.account.is_admin:
        raise unauthorized("only administrators may see or do this")
    if actor.reach is not Reach.NODE or not actor.may(Scope.MANAGE):
        raise unauthorized("this token may not do all that its account may; sign in with another")
    return actor.account
