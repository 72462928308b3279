"""Who may do what, and who did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant

from .audit_values import AuditEntry, AuditFilter
from .values import Account, AccountId, DeviceLogin, Role, StoredPassword, Token


class Identities(Protocol):
    """The reads that tell who asks: an account, the hashes of its password and of a token.

    `account` → `AccountNotFound`.
    """

    def account(self, account: AccountId) -> Account: ...
    def find_password(self, account: AccountId) -> StoredPassword | None: ...
    def find_token(self, token: str) -> Token | None:
        """By token id."""


class Accounts(Protocol):
    """Accounts are added, changed and listed. Names compare without case.

    `put_account` adds or changes; a name of another account → `AccountNameTaken`.
    `set_password` → `AccountNotFound`.
    """

    def put_account(self, account: Account) -> None: ...
    def find_account(self, name: str) -> Account | None: ...
    def page(self, *, after: str | None = None, limit: int = 100) -> Sequence[Account]:
        """Accounts by folded name, those greater than `after`."""

    def set_password(self, account: AccountId, password: StoredPassword) -> None: ...
    def secret(self, name: str, fresh: bytes) -> bytes:
        """The node's secret of that name: `fresh` if it had none; the first one stays."""


class Tokens(Protocol):
    """Hashes of the tokens of accounts are stored, listed and revoked.

    `put_token` of a known id → `TokenIdTaken`; `revoke_token` → `TokenNotFound`, and again
    changes nothing.
    """

    def put_token(self, token: Token) -> None: ...
    def tokens(self, account: AccountId) -> Sequence[Token]: ...
    def revoke_token(self, token: str) -> None: ...


class AccountStore(Identities, Accounts, Tokens, Protocol):
    """All of it; those who use one name the part that they need."""


class RoleReads(Protocol):
    """Who may do what with whose dataset."""

    def of_dataset(self, dataset: DatasetId) -> Mapping[AccountId, Role]: ...
    def of_account(self, account: AccountId) -> Mapping[DatasetId, Role]: ...


class RoleChanges(Protocol):
    """Roles are given and taken; they go with their dataset.

    `put` replaces; unknown → `DatasetNotFound`, `AccountNotFound`. Removing an absent role
    changes nothing.
    """

    def put(self, dataset: DatasetId, account: AccountId, role: Role) -> None: ...
    def remove(self, dataset: DatasetId, account: AccountId) -> None: ...


class RoleStore(RoleReads, RoleChanges, Protocol):
    """Both; those who use one name the part that they need."""


class DeviceLogins(Protocol):
    """Logins of command lines that wait for their user, by the hash of their code.

    An absent one is None or False, never an error: codes come from strangers.
    """

    def put(self, login: DeviceLogin) -> None: ...
    def find(self, code_hash: bytes) -> DeviceLogin | None: ...
    def polled(self, code_hash: bytes, at: Instant) -> None: ...
    def decide(self, code_hash: bytes, account: AccountId | None) -> bool:
        """Approved by the account, or denied (None). False: absent, or decided before."""

    def take(self, code_hash: bytes) -> DeviceLogin | None:
        """The login, gone from now on: one of several callers gets it."""

    def count(self) -> int: ...
    def remove_expired(self, now: Instant) -> int: ...


class AuditLog(Protocol):
    """Who did what. Entries outlive accounts and datasets; only `prune` removes them.

    `record` counts them up in the order given; texts that are too long are cut.
    """

    def record(self, audit_entries: Sequence[AuditEntry]) -> None: ...
    def page(
        self, which: AuditFilter = ..., *, before: int | None = None, limit: int = 100
    ) -> Sequence[AuditEntry]:
        """Entries, newest first, of numbers below `before`."""

    def prune(self, *, before: Instant) -> int:
        """Remove entries from before then; returns how many."""
