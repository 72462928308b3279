"""Actors: turn the Authorization header into the actor that sends a request.

There are two kinds of token: access tokens (`ka_…`), and sessions of users who logged in.
A well-formed token that is unknown, revoked or expired is no error here: its bearer becomes
an anonymous actor with a reason, and the dataset layer decides (see `access`).
Source: transfer protocol, common HTTP rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.ports import Identities
from odf_storage.stores.ports.errors import AccountNotFound
from odf_storage.stores.ports.values import Account, AccountId, Reach, Role, Scope

from .sessions import MalformedSession, read_session
from .tokens import PREFIX, AccessToken, MalformedToken

MAX_HEADER_CHARS = 8192
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([\x21-\x7e]+) *")


class MalformedBearer(BadInput):
    """The Authorization header contains no bearer token."""

    def __init__(self) -> None:
        super().__init__("Invalid Bearer token header")


class Reason(Enum):
    """Why an actor is anonymous."""

    NONE_PROVIDED = "No authentication token provided"
    EXPIRED = "Authentication token expired"
    INVALID = "Authentication token invalid"


@dataclass(frozen=True, slots=True)
class Actor:
    """The sender of a request. Without an account it is anonymous, and `reason` says why."""

    account: Account | None = None
    scopes: frozenset[Scope] = frozenset()
    reason: Reason = Reason.NONE_PROVIDED
    bearer: str | None = field(default=None, repr=False)
    """The token as the caller sent it. It is put into fallback transfer URLs."""
    reach: Reach = Reach.NODE
    dataset: DatasetId | None = None
    """The dataset of a token that is valid for this dataset only."""
    reads: DatasetId | None = None
    """The dataset whose files the actor may read because of a signed URL or S3 keys."""
    roles: Mapping[DatasetId, Role] = field(default_factory=dict, repr=False)
    """Roles of the account at datasets of other accounts."""

    @property
    def is_anonymous(self) -> bool:
        return self.account is None

    @property
    def has_session(self) -> bool:
        """Return whether the caller logged in, rather than sent an access token."""
        return self.account is not None and not (self.bearer or PREFIX).startswith(PREFIX)

    def may(self, scope: Scope) -> bool:
        """Return whether the token has the scope. Every other scope includes reading."""
        return scope in self.scopes or (scope is Scope.READ and bool(self.scopes))


ANONYMOUS = Actor()


def bearer_of(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """Return the token in the request headers, or None without an Authorization header.

    Raises:
        MalformedBearer: another scheme, an empty token, or more than one header.
    """
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if not values:
        return None
    match = _BEARER.fullmatch(values[0].decode("latin-1")[:MAX_HEADER_CHARS])
    if match is None or len(values) > 1:
        raise MalformedBearer
    return match[1]


RolesOf = Callable[[AccountId], Mapping[DatasetId, Role]]


def _no_roles(_: AccountId) -> Mapping[DatasetId, Role]:
    return {}


def identify(
    bearer: str | None,
    accounts: Identities,
    now: Instant,
    *,
    secrets: Sequence[bytes] = (),
    roles_of: RolesOf = _no_roles,
) -> Actor:
    """Return the actor of a bearer token. A bad token is no error, but gives an anonymous actor.

    `secrets` are the keys that sign sessions; without any, no session is recognized.
    """
    if bearer is None:
        return ANONYMOUS
    if bearer.startswith(PREFIX) or not secrets:
        return _by_token(bearer, accounts, now, roles_of)
    return _by_session(bearer, accounts, now, secrets, roles_of)


def _by_token(bearer: str, accounts: Identities, now: Instant, roles_of: RolesOf) -> Actor:
    try:
        token = AccessToken.parse(bearer)
    except MalformedToken:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    stored = accounts.find_token(token.stored_id)
    if stored is None or not token.matches(stored.secret_hash) or stored.revoked_at is not None:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    if stored.expires_at is not None and stored.expires_at <= now:
        return Actor(reason=Reason.EXPIRED, bearer=bearer)
    return Actor(
        accounts.account(stored.account),
        stored.scopes,
        bearer=bearer,
        reach=stored.reach,
        dataset=stored.dataset,
        roles=roles_of(stored.account),
    )


def _by_session(
    bearer: str, accounts: Identities, now: Instant, secrets: Sequence[bytes], roles_of: RolesOf
) -> Actor:
    """Return the actor of a session. A change of the password ends all earlier sessions."""
    try:
        session = read_session(bearer, secrets)
    except MalformedSession:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    if session.is_expired(now):
        return Actor(reason=Reason.EXPIRED, bearer=bearer)
    try:
        account = accounts.account(session.account)
    except AccountNotFound:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    password = accounts.find_password(account.id)
    if password is not None and session.issued_s < password.changed_at.ns // NANOS:
        return Actor(reason=Reason.INVALID, bearer=bearer)
    return Actor(account, frozenset(Scope), bearer=bearer, roles=roles_of(account.id))
