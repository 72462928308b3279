"""Create accounts, set their passwords, and create their tokens.

Access tokens that users create for themselves, after a login.

A token cannot create another token, so a leaked one is harmless once it is revoked or expires.

Administration of accounts: list, create, disable and enable them, set passwords, revoke tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from odf_protocol.commitments import SEED_BYTES, key_pair
from odf_protocol.errors import BadInput, Conflict, LimitExceeded, NotFound, Refused
from odf_protocol.identity import DatasetId, DatasetRef, Name
from odf_protocol.instant import Instant
from odf_storage.datasets.node.naming import refuse_reserved_account
from odf_storage.runtime.clock import Clock, Random
from odf_storage.runtime.logs import add_facts
from odf_storage.stores.ports.errors import account_name_taken, token_not_found
from odf_storage.stores.ports.values import Account, AccountId, Reach, Scope, StoredPassword, Token
from odf_storage.stores.registers.accounts.accounts import AccountStore

from ..auth.access import Action, DatasetHidden, Unauthenticated, require_admin, unauthorized
from ..auth.actors import ID_BYTES, TOKEN_BYTES, AccessToken, Actor
from ..auth.dataset_access import DatasetAccess
from ..auth.passwords import SALT_BYTES, Cost, check_new, hash_password

ALL_SCOPES = frozenset(Scope)


def account_disabled(account: Account) -> Refused:
    """Nobody may act as this account."""
    return Refused(
        "AccountDisabled",
        f"the account {account.name} is disabled; ask an administrator of the node",
        account=account.name,
    )


def find_account(accounts: AccountStore, name: str) -> Account:
    """Return the account with this name. Raises `AccountUnknown`."""
    found = accounts.find_account(name)
    if found is None:
        raise NotFound(
            "AccountUnknown",
            f"there is no account {name[:100]}; on the node's machine, `odf-node account list` "
            "shows all, and `odf-node account create` makes one",
            account=name[:100],
        )
    return found


def create_account(
    accounts: AccountStore, name: str, random: Random, *, is_admin: bool = False
) -> Account:
    """Create an account with a new identity.

    Raises:
        MalformedName, ReservedName, AccountNameTaken.
    """
    if accounts.find_account(str(Name(name))) is not None:
        raise account_name_taken(name)
    return ensure_account(accounts, name, random, is_admin=is_admin)


def set_password(
    accounts: AccountStore,
    account: Account,
    password: str,
    random: Random,
    now: Instant,
    cost: Cost,
) -> None:
    """Set the password of the account, which ends its sessions. Raises `PasswordNotTaken`."""
    text = hash_password(check_new(password), random(SALT_BYTES), cost)
    accounts.set_password(account.id, StoredPassword(text, now))


def ensure_account(
    accounts: AccountStore, name: str, random: Random, *, is_admin: bool = False
) -> Account:
    """Return the account with this name; create it with a new identity if there is none.

    With `is_admin`, an existing account becomes an administrator. It never loses that right here.

    Raises:
        MalformedName: the name does not follow the grammar. ReservedName: the node reserves it.
    """
    known = accounts.find_account(str(Name(name)))
    if known is None:
        refuse_reserved_account(name)
    if known is not None and (known.is_admin or not is_admin):
        return known
    identity = known.id if known else AccountId(str(key_pair(random(SEED_BYTES)).dataset_id))
    account = Account(identity, known.name if known else name, is_admin)
    accounts.put_account(account)
    return account


def create_token(
    accounts: AccountStore,
    account: Account,
    random: Random,
    now: Instant,
    *,
    scopes: Iterable[Scope] = ALL_SCOPES,
    expires_at: Instant | None = None,
    label: str = "",
    reach: Reach = Reach.NODE,
    dataset: DatasetId | None = None,
) -> AccessToken:
    """Create a token of the account. Only the result contains its text; the store keeps a hash.

    Raises:
        AccountDisabled.
    """
    if account.disabled_at is not None:
        raise account_disabled(account)
    token = AccessToken.of_random(random(ID_BYTES + TOKEN_BYTES))
    accounts.put_token(
        Token(
            id=token.stored_id,
            account=account.id,
            secret_hash=token.secret_hash,
            scopes=frozenset(scopes),
            created_at=now,
            expires_at=expires_at,
            label=label,
            reach=reach,
            dataset=dataset,
        )
    )
    return token


MAX_ACCOUNT_TOKENS = 100
"""Access tokens that hold which an account may make for itself."""

MAX_LABEL_CHARS = 200


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
        raise unauthorized("tokens are made by those who logged in, not by tokens: log in")
    now = tokens.clock()
    ends = None if asked.expires_at is None else Instant.parse(asked.expires_at)
    _refuse_unfit(asked, ends, now)
    valid = [one for one in tokens.accounts.tokens(account.id) if _holds(one, now)]
    if len(valid) >= tokens.most:
        raise LimitExceeded(
            "TooManyTokens",
            f"the account has {tokens.most} tokens that hold: revoke one first",
            limit=tokens.most,
        )
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
        raise token_not_found(name[:100])
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
        raise unauthorized("this token may not manage the account")
    return actor.account


def _refuse_unfit(asked: TokenAsked, ends: Instant | None, now: Instant) -> None:
    if len(asked.label) > MAX_LABEL_CHARS or not asked.label.isprintable():
        raise BadInput(
            "MalformedTokenRequest", f"a label is one line of {MAX_LABEL_CHARS} characters at most"
        )
    if asked.scopes is not None and not asked.scopes:
        raise BadInput(
            "MalformedTokenRequest", "a token without scopes allows nothing; leave scopes out"
        )
    if asked.dataset is not None and asked.own_datasets_only:
        raise BadInput(
            "MalformedTokenRequest", "dataset and ownDatasetsOnly are two different reaches"
        )
    if ends is not None and ends <= now:
        raise BadInput("MalformedTokenRequest", f"a token cannot end at {ends}: that is over")


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


@dataclass(frozen=True)
class Administration:
    """The dependencies of functions that administer accounts."""

    accounts: AccountStore
    cost: Cost
    clock: Clock
    random: Random


def list_accounts(
    its: Administration, actor: Actor, *, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of accounts, ordered by name, and the cursor of the next page (None at the
    end). Raises `Unauthenticated`, `Unauthorized`."""
    require_admin(actor)
    found = its.accounts.page(after=after, limit=limit + 1)
    page = found[:limit]
    more = page[-1].name.lower() if len(found) > limit else None
    return [_shown(its, account) for account in page], more


def one_account(
    its: Administration, actor: Actor, name: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an account and its tokens. Raises the errors of `list_accounts`, and
    `AccountUnknown`."""
    require_admin(actor)
    account = find_account(its.accounts, name)
    return _shown(its, account), [token_data(one) for one in its.accounts.tokens(account.id)]


def make_account(
    its: Administration, actor: Actor, name: str, password: str, *, is_admin: bool
) -> Account:
    """Create an account. Without a password, it can be used by tokens only.

    Raises:
        Unauthenticated, Unauthorized, MalformedName, ReservedName, AccountNameTaken,
        PasswordNotTaken.
    """
    require_session(actor)
    chosen = check_new(password) if password else None
    made = create_account(its.accounts, name, its.random, is_admin=is_admin)
    add_facts(account=made.name, admin=str(is_admin))
    if chosen is not None:
        set_password(its.accounts, made, chosen, its.random, its.clock(), its.cost)
    return made


def set_password_of(its: Administration, actor: Actor, name: str, password: str) -> Account:
    """Set the password of an account, which ends its sessions.

    Raises:
        Unauthenticated, Unauthorized, AccountUnknown, PasswordNotTaken.
    """
    require_session(actor)
    account = find_account(its.accounts, name)
    add_facts(account=account.name)
    set_password(its.accounts, account, password, its.random, its.clock(), its.cost)
    return account


def disable(its: Administration, actor: Actor, name: str) -> Account:
    """Disable an account: its tokens and sessions are refused from now on, and its streams end.

    Its datasets stay as they are. Tokens that are not revoked work again once it is enabled.

    Raises:
        Unauthenticated, Unauthorized, AccountUnknown.
        OwnAccount: nobody disables oneself, so that an administrator remains.
    """
    own = require_admin(actor)
    account = find_account(its.accounts, name)
    if account.id == own.id:
        raise Conflict("OwnAccount", "nobody disables oneself; another administrator can")
    add_facts(account=account.name)
    its.accounts.set_disabled(account.id, its.clock())
    return account


def enable(its: Administration, actor: Actor, name: str) -> Account:
    """Enable an account again. Raises `Unauthenticated`, `Unauthorized`, `AccountUnknown`."""
    require_session(actor)
    account = find_account(its.accounts, name)
    add_facts(account=account.name)
    its.accounts.set_disabled(account.id, None)
    return account


def revoke_token_of(its: Administration, actor: Actor, name: str, token: str) -> None:
    """Revoke a token of an account, permanently. Raises the errors of `one_account`, and
    `TokenNotFound`."""
    require_admin(actor)
    account = find_account(its.accounts, name)
    found = its.accounts.find_token(token)
    if found is None or found.account != account.id:
        raise token_not_found(token[:100])
    add_facts(account=account.name, token=token)
    its.accounts.revoke_token(token)


def require_session(actor: Actor) -> None:
    """Require an administrator who logged in. Access tokens cannot create accounts or set
    passwords, so that a leaked token is harmless once it is revoked."""
    require_admin(actor)
    if not actor.has_session:
        raise unauthorized("accounts and passwords are made by those who signed in by password")


def _shown(its: Administration, account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "id": account.id,
        "isAdmin": account.is_admin,
        "disabledAt": str(account.disabled_at) if account.disabled_at else None,
        "hasPassword": its.accounts.find_password(account.id) is not None,
    }
