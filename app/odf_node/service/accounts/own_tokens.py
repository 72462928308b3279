"""Access tokens that users create for themselves, after a login.

A token cannot create another token, so a leaked one is harmless once it is revoked or expires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from odf_protocol.errors import BadInput, LimitExceeded
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.instant import Instant
from odf_storage.runtime.clock import Clock
from odf_storage.runtime.randomness import Random
from odf_storage.stores.ports import AccountStore
from odf_storage.stores.ports.errors import TokenNotFound
from odf_storage.stores.ports.values import Account, Reach, Scope, Token

from ..auth.access import Action, DatasetHidden, Unauthenticated, Unauthorized
from ..auth.actors import Actor
from ..auth.dataset_access import DatasetAccess
from .accounts import create_token

MAX_ACCOUNT_TOKENS = 100
"""Access tokens that hold which an account may make for itself."""

MAX_LABEL_CHARS = 200


class MalformedTokenRequest(BadInput):
    """The properties of the requested token are invalid."""


class TooManyTokens(LimitExceeded):
    """The account has reached its limit of valid tokens."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the account has {limit} tokens that hold: revoke one first",
            limit=limit,
        )


class TokenAsked(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A request for a token: a label, its scopes (default: all), its expiry (RFC 3339), and the
    dataset to which it is restricted (an id or a name)."""

    label: str = ""
    scopes: tuple[Scope, ...] | None = None
    expires_at: str | None = None
    dataset: str | None = None
    own_datasets_only: bool = False


@dataclass(frozen=True)
class OwnTokens:
    """The dependencies of functions that manage tokens. `most` is the limit for each account."""

    accounts: AccountStore
    access: DatasetAccess
    clock: Clock
    random: Random
    most: int


def list_tokens(tokens: OwnTokens, actor: Actor) -> list[dict[str, Any]]:
    """Return the tokens of the actor's account, without their secrets. Raises `Unauthenticated`,
    `Unauthorized`."""
    return [token_data(one) for one in tokens.accounts.tokens(_manager(actor).id)]


def make_token(tokens: OwnTokens, actor: Actor, asked: TokenAsked) -> dict[str, Any]:
    """Create a token of the actor's account. Only this result contains its text, `token`.

    Raises:
        Unauthenticated, Unauthorized, MalformedTokenRequest, TooManyTokens, DatasetHidden.
    """
    account = _manager(actor)
    if not actor.has_session:
        raise Unauthorized("tokens are made by those who logged in, not by tokens: log in")
    now = tokens.clock()
    ends = None if asked.expires_at is None else Instant.parse(asked.expires_at)
    _refuse_unfit(asked, ends, now)
    valid = [one for one in tokens.accounts.tokens(account.id) if _holds(one, now)]
    if len(valid) >= tokens.most:
        raise TooManyTokens(tokens.most)
    dataset = None if asked.dataset is None else _dataset(tokens.access, actor, asked.dataset)
    reach = Reach.ACCOUNT if asked.own_datasets_only else Reach.NODE
    made = create_token(
        tokens.accounts,
        account,
        tokens.random,
        now,
        scopes=asked.scopes or tuple(Scope),
        expires_at=ends,
        label=asked.label,
        reach=reach if dataset is None else Reach.DATASET,
        dataset=dataset,
    )
    kept = tokens.accounts.find_token(made.stored_id)
    shown = {} if kept is None else token_data(kept)
    return {"token": str(made), "account": account.name, **shown}


def revoke_token(tokens: OwnTokens, actor: Actor, name: str) -> None:
    """Revoke a token, permanently. Raises `TokenNotFound` if no token of the actor has this id."""
    account = _manager(actor)
    found = tokens.accounts.find_token(name)
    if found is None or found.account != account.id:
        raise TokenNotFound(name[:100])
    tokens.accounts.revoke_token(name)


def token_data(token: Token) -> dict[str, Any]:
    """Return a token as JSON, without its secret."""
    return {
        "id": token.id,
        "label": token.label,
        "scopes": sorted(token.scopes),
        "reach": token.reach.value,
        "datasetId": str(token.dataset) if token.dataset else None,
        "createdAt": str(token.created_at),
        "expiresAt": str(token.expires_at) if token.expires_at else None,
        "revokedAt": str(token.revoked_at) if token.revoked_at else None,
    }


def _manager(actor: Actor) -> Account:
    if actor.account is None:
        raise Unauthenticated
    if actor.reach is not Reach.NODE or not actor.may(Scope.MANAGE):
        raise Unauthorized("this token may not manage the account")
    return actor.account


def _refuse_unfit(asked: TokenAsked, ends: Instant | None, now: Instant) -> None:
    if len(asked.label) > MAX_LABEL_CHARS or not asked.label.isprintable():
        raise MalformedTokenRequest(f"a label is one line of {MAX_LABEL_CHARS} characters at most")
    if asked.scopes is not None and not asked.scopes:
        raise MalformedTokenRequest("a token without scopes allows nothing; leave scopes out")
    if asked.dataset is not None and asked.own_datasets_only:
        raise MalformedTokenRequest("dataset and ownDatasetsOnly are two different reaches")
    if ends is not None and ends <= now:
        raise MalformedTokenRequest(f"a token cannot end at {ends}: that is over")


def _holds(token: Token, now: Instant) -> bool:
    return token.revoked_at is None and (token.expires_at is None or token.expires_at > now)


def _dataset(access: DatasetAccess, actor: Actor, text: str) -> DatasetId:
    """Return the id of the dataset, which the actor must be allowed to read."""
    ref = DatasetRef.parse(text)
    if ref.alias is not None:
        ref = DatasetRef(alias=access.new_alias(actor, ref.alias))
    entry = access.registry.find(ref)
    if entry is None or Action.READ not in access.grants(actor, entry):
        raise DatasetHidden
    return entry.id
