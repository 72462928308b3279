"""May they: one `authorize`, the only place that turns actor and dataset into yes or no.

The order of checks is part of the protocol, because every answer tells something:

    1  malformed bearer           400 text     (`actors.bearer_of`)
    2  anonymous not allowed      401 text     `admit`
    3  address is no name         400 empty    `address`
    4  no such dataset, no push   404 empty    `authorize` from here on
    5  bad token, push            401 text     whether there is a dataset or not
    6  bad token, not for all     404 empty    existence is hidden
    7  bad token, read by all     401 text
    8  may not read               404 empty    existence is hidden
    9  may read, may not do this  403 empty
    10 no such dataset, push      None: the push may create it

The reference answers a bad token before it asks whether the dataset is hidden (so 401 in line 6),
by which anybody finds out what exists; the header `WWW-Authenticate` of lines 4 and 6 tells those
whose token has expired.
"""

from __future__ import annotations

from enum import StrEnum

from odf_node.protocol.errors import BadInput, NotFound, Refused
from odf_node.protocol.identity import DatasetAlias, MalformedName, Name
from odf_node.storage.datasets.node.naming import SINGLE_OWNER
from odf_node.storage.stores.ports.values import DatasetEntry, Reach, Role, Scope, Visibility

from ..setting_groups.words import AnonymousReads, Tenancy
from .actors import Actor, Reason


class Action(StrEnum):
    """What can be asked of a dataset or a node."""

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
"""What a token must allow before its account's rights count."""
INVALID_CHALLENGE = 'Bearer error="invalid_token"'
"""The challenge of RFC 6750 to those whose token is unknown, revoked or expired."""


class AnonymousRestricted(Refused):
    """The node serves nobody without a token."""

    def __init__(self) -> None:
        super().__init__("Anonymous account is restricted")


class MalformedAddress(BadInput):
    """Path segments that are no names."""


class DatasetHidden(NotFound):
    """No such dataset, or none that this actor may know of. The fact `challenge`: a bad token."""

    def __init__(self, reason: Reason = Reason.NONE_PROVIDED) -> None:
        bad = {"challenge": INVALID_CHALLENGE} if reason in _REFUSED_TOKEN else {}
        super().__init__("no dataset has this name, or none that you may read", **bad)


class TokenInvalid(Refused):
    def __init__(self) -> None:
        super().__init__(Reason.INVALID.value)


class TokenExpired(Refused):
    def __init__(self) -> None:
        super().__init__(Reason.EXPIRED.value)


class ActionForbidden(Refused):
    """The actor may read the dataset, but not do this."""

    def __init__(self) -> None:
        super().__init__("this account may not do this, or no token was sent")


class Unauthenticated(Refused):
    """This takes an account, and the caller showed none."""

    def __init__(self) -> None:
        super().__init__("Unauthenticated")


class Unauthorized(Refused):
    """The account may not do this."""

    def __init__(self, why: str = "Unauthorized") -> None:
        super().__init__(why)


_REFUSED_TOKEN = {Reason.INVALID: TokenInvalid, Reason.EXPIRED: TokenExpired}


class IsRemote(BadInput):
    """The dataset is a mirror: only what it follows adds to it."""

    def __init__(self) -> None:
        super().__init__("the dataset is a mirror; publish where it comes from")


def admit(actor: Actor, *, allow_anonymous: bool) -> None:
    """The node-wide policy. Raises `AnonymousRestricted`."""
    if actor.is_anonymous and not allow_anonymous:
        raise AnonymousRestricted


def address(tenancy: Tenancy, account: str | None, name: str) -> DatasetAlias:
    """The stored alias behind the path segments. Raises `MalformedAddress`."""
    try:
        owner = SINGLE_OWNER if tenancy is Tenancy.SINGLE else account or ""
        return DatasetAlias(Name(name), Name(owner))
    except MalformedName as broken:
        raise MalformedAddress(broken.message) from None


def is_for_all(entry: DatasetEntry, reads: AnonymousReads) -> bool:
    """Whether it takes no right to read the dataset."""
    return reads is AnonymousReads.ALL or entry.visibility is Visibility.PUBLIC


def grants(actor: Actor, entry: DatasetEntry, reads: AnonymousReads) -> frozenset[Action]:
    """Everything the actor may do with the dataset."""
    is_open = is_for_all(entry, reads) or actor.reads == entry.id
    allowed = BY_ROLE[Role.READER] if is_open else frozenset()
    if actor.account is None or not reaches(actor, entry):
        return allowed
    return allowed | {held for held in _held(actor, entry) if actor.may(SCOPE_FOR[held])}


def reaches(actor: Actor, entry: DatasetEntry) -> bool:
    """Whether the token has to do with this dataset; if not, its bearer is a stranger here."""
    match actor.reach:
        case Reach.NODE:
            return True
        case Reach.ACCOUNT:
            return owns(actor, entry.alias)
        case Reach.DATASET:
            return actor.dataset == entry.id


def _held(actor: Actor, entry: DatasetEntry) -> frozenset[Action]:
    """What the account as such may do."""
    if actor.account is not None and (actor.account.is_admin or owns(actor, entry.alias)):
        return EVERYTHING
    role = actor.roles.get(entry.id)
    return BY_ROLE[role] if role is not None else frozenset()


def owns(actor: Actor, alias: DatasetAlias) -> bool:
    return actor.account is not None and Name(actor.account.name) == alias.account


def refuse_bad_token(actor: Actor) -> None:
    """For what anybody may read: a token that is none is told. `TokenInvalid`, `TokenExpired`."""
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
    """The entry, once the actor may do this; None only for a push that may create it.

    Raises:
        DatasetHidden, TokenInvalid, TokenExpired, ActionForbidden: in the order above.
    """
    if creates:
        refuse_bad_token(actor)
    if entry is None:
        if creates:
            return None
        raise DatasetHidden(actor.reason)
    allowed = grants(actor, entry, reads)
    if Action.READ not in allowed:
        raise DatasetHidden(actor.reason)
    refuse_bad_token(actor)
    if action not in allowed:
        raise ActionForbidden
    return entry


def may_create(actor: Actor, alias: DatasetAlias) -> None:
    """Whether a dataset may appear at this alias: in one's own account only.

    Raises:
        Unauthenticated: nobody is named. Unauthorized: another's account, or a lesser token:
            one for a single dataset makes no others.
    """
    if actor.account is None:
        raise Unauthenticated
    is_lesser = actor.reach is Reach.DATASET or not actor.may(Scope.CREATE)
    if not owns(actor, alias) or is_lesser:
        raise Unauthorized
