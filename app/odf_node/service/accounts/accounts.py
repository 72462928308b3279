"""Create accounts, set their passwords, and create their tokens."""

from __future__ import annotations

from collections.abc import Iterable

from odf_protocol.errors import NotFound
from odf_protocol.identity import DatasetId, Name
from odf_protocol.instant import Instant
from odf_protocol.keys import SEED_BYTES, key_pair
from odf_storage.datasets.node.naming import refuse_reserved_account
from odf_storage.runtime.randomness import Random
from odf_storage.stores.ports import AccountStore
from odf_storage.stores.ports.errors import AccountNameTaken
from odf_storage.stores.ports.values import (
    Account,
    AccountId,
    Reach,
    Scope,
    StoredPassword,
    Token,
)

from ..auth.passwords import SALT_BYTES, Cost, check_new, hash_password
from ..auth.tokens import ID_BYTES, SECRET_BYTES, AccessToken

ALL_SCOPES = frozenset(Scope)


class AccountUnknown(NotFound):
    """There is no account with this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no account {name[:100]}", account=name[:100])


def find_account(accounts: AccountStore, name: str) -> Account:
    """Return the account with this name. Raises `AccountUnknown`."""
    found = accounts.find_account(name)
    if found is None:
        raise AccountUnknown(name)
    return found


def create_account(
    accounts: AccountStore, name: str, random: Random, *, is_admin: bool = False
) -> Account:
    """Create an account with a new identity.

    Raises:
        MalformedName, ReservedName, AccountNameTaken.
    """
    if accounts.find_account(str(Name(name))) is not None:
        raise AccountNameTaken(name)
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
    """Create a token of the account. Only the result contains its text; the store keeps a hash."""
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
            reach=reach,
            dataset=dataset,
        )
    )
    return token
