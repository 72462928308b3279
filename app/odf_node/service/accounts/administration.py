"""Administration of accounts: list and create them, set passwords, revoke tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odf_storage.runtime.clock import Clock
from odf_storage.runtime.context import add_facts
from odf_storage.runtime.randomness import Random
from odf_storage.stores.ports import AccountStore
from odf_storage.stores.ports.errors import TokenNotFound
from odf_storage.stores.ports.values import Account

from ..auth.access import Unauthorized
from ..auth.actors import Actor
from ..auth.admins import require_admin
from ..auth.passwords import Cost, check_new
from .accounts import create_account, find_account, set_password
from .own_tokens import token_data


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
    _require_session(actor)
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
    _require_session(actor)
    account = find_account(its.accounts, name)
    add_facts(account=account.name)
    set_password(its.accounts, account, password, its.random, its.clock(), its.cost)
    return account


def revoke_token_of(its: Administration, actor: Actor, name: str, token: str) -> None:
    """Revoke a token of an account, permanently. Raises the errors of `one_account`, and
    `TokenNotFound`."""
    require_admin(actor)
    account = find_account(its.accounts, name)
    found = its.accounts.find_token(token)
    if found is None or found.account != account.id:
        raise TokenNotFound(token[:100])
    add_facts(account=account.name, token=token)
    its.accounts.revoke_token(token)


def _require_session(actor: Actor) -> None:
    """Require an administrator who logged in. Access tokens cannot create accounts or set
    passwords, so that a leaked token is harmless once it is revoked."""
    require_admin(actor)
    if not actor.has_session:
        raise Unauthorized("accounts and passwords are made by those who signed in by password")


def _shown(its: Administration, account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "id": account.id,
        "isAdmin": account.is_admin,
        "hasPassword": its.accounts.find_password(account.id) is not None,
    }
