"""Accounts and their tokens: made on demand, honoured until revoked or expired."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from protocol.errors import NotFound
from protocol.identity import Name
from protocol.instant import Instant
from protocol.keys import SEED_BYTES, key_pair
from storage.ports import AccountStore
from storage.values import Account, AccountId, Scope, Token

from ..auth.tokens import ID_BYTES, SECRET_BYTES, AccessToken

ALL_SCOPES = frozenset(Scope)


class AccountUnknown(NotFound):
    """No account of that name."""


def ensure_account(
    accounts: AccountStore, name: str, random: Callable[[int], bytes], *, is_admin: bool = False
) -> Account:
    """The account of that name, made with a fresh identity if it is new.

    An account that exists gains the administrator's right if asked for, never loses it.

    Raises:
        MalformedName: a name outside of the grammar.
    """
    known = accounts.find_account(str(Name(name)))
    if known is not None and (known.is_admin or not is_admin):
        return known
    identity = known.id if known else AccountId(str(key_pair(random(SEED_BYTES)).dataset_id))
    account = Account(identity, known.name if known else name, is_admin)
    accounts.put_account(account)
    return account


def create_token(
    accounts: AccountStore,
    account: Account,
    random: Callable[[int], bytes],
    now: Instant,
    *,
    scopes: Iterable[Scope] = ALL_SCOPES,
    expires_at: Instant | None = None,
    label: str = "",
) -> AccessToken:
    """A new token of the account. Its text is in the result and nowhere else."""
    token = AccessToken.of_random(random(ID_BYTES + SECRET_BYTES))
    accounts.put_token(
        Token(
            id=token.stored_id,
            account=account.id,
            secret_hash=token.secret_hash,
            scopes=frozenset(scopes),
            created_at=now,
            expires_at=expires_at,
            label=label,
        )
    )
    return token
