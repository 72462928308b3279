"""Ports for accounts, their access rights, and the audit log.

An entry of the audit log, and the filter that selects entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from .values import Account, AccountId, DeviceLogin, Role, StoredPassword, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A change that an actor requested. `outcome` is the HTTP status, the close code of a
    transfer, or `done` or `failed` of a command; the log assigns `number` on recording."""

    at: Instant
    actor: str
    """Account name, `anonymous`, or `local:<user>` for commands on the machine of the node."""
    action: str
    subject: str
    """The target of the request: a path, or the words of a command."""
    outcome: str
    account: str | None = None
    """Id of the account, because its name may change."""
    dataset: DatasetId | None = None
    address: str | None = None
    """Network address of the client."""
    trace: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Selects entries. A field that is None does not restrict them."""

    actor: str | None = None
    action: str | None = None
    dataset: DatasetId | None = None
    since: Instant | None = None
    until: Instant | None = None


EVERYTHING = AuditFilter()


class Identities(Protocol):
    """Reads that identify a caller: an account, and the hashes of its password and tokens.

    `account` raises `AccountNotFound`.
    """

    def account(self, account: AccountId) -> Account: ...
    def find_password(self, account: AccountId) -> StoredPassword | None: ...
    def find_token(self, token: str) -> Token | None:
        """Return the token with this id."""


class Accounts(Protocol):
    """Adds, changes and lists accounts. Names are compared case-insensitively.

    `put_account` adds or changes an account; it raises `AccountNameTaken` if another account has
    the name. `set_password` raises `AccountNotFound`.
    """

    def put_account(self, account: Account) -> None: ...
    def find_account(self, name: str) -> Account | None: ...
    def page(self, *, after: str | None = None, limit: int = 100) -> Sequence[Account]:
        """Return accounts by folded name, only those whose name is greater than `after`."""

    def set_password(self, account: AccountId, password: StoredPassword) -> None: ...
    def secret(self, name: str, fresh: bytes) -> bytes:
        """Return the node's secret of that name. If there is none, store `fresh`, for ever."""


class Tokens(Protocol):
    """Stores, lists and revokes the hashes of access tokens.

    `put_token` raises `TokenIdTaken` for a known id. `revoke_token` raises `TokenNotFound`;
    revoking a token again changes nothing.
    """

    def put_token(self, token: Token) -> None: ...
    def tokens(self, account: AccountId) -> Sequence[Token]: ...
    def revoke_token(self, token: str) -> None: ...


class AccountStore(Identities, Accounts, Tokens, Protocol):
    """All account ports in one; code that uses the store names the part that it needs."""


class RoleReads(Protocol):
    """Reads which account has which role for which dataset."""

    def of_dataset(self, dataset: DatasetId) -> Mapping[AccountId, Role]: ...
    def of_account(self, account: AccountId) -> Mapping[DatasetId, Role]: ...


class RoleChanges(Protocol):
    """Grants and removes roles. Forgetting a dataset removes its roles.

    `put` replaces a role; it raises `DatasetNotFound` or `AccountNotFound`. Removing an absent
    role changes nothing.
    """

    def put(self, dataset: DatasetId, account: AccountId, role: Role) -> None: ...
    def remove(self, dataset: DatasetId, account: AccountId) -> None: ...


class RoleStore(RoleReads, RoleChanges, Protocol):
    """Both role ports in one; code that uses the store names the part that it needs."""


class DeviceLogins(Protocol):
    """Pending logins of command lines, by the hash of their secret code, until the user decides.

    An absent login is None or False, never an error, because codes come from strangers.
    """

    def put(self, login: DeviceLogin) -> None: ...
    def find(self, code_hash: bytes) -> DeviceLogin | None: ...
    def find_by_user_code(self, user_code_hash: bytes) -> DeviceLogin | None:
        """Return the newest login with this code for its user."""

    def polled(self, code_hash: bytes, at: Instant) -> None: ...
    def decide(self, code_hash: bytes, account: AccountId | None) -> bool:
        """Approve it for the account, or deny it (None). False: it is absent or was decided."""

    def take(self, code_hash: bytes) -> DeviceLogin | None:
        """Remove and return the login; only one of several concurrent callers gets it."""

    def count(self) -> int: ...
    def remove_expired(self, now: Instant) -> int: ...


class AuditLog(Protocol):
    """The log of changes by actors. Entries outlive accounts and datasets; only `prune` removes
    them.

    `record` numbers the entries in the given order and cuts texts that are too long.
    """

    def record(self, audit_entries: Sequence[AuditEntry]) -> None: ...
    def page(
        self, which: AuditFilter = ..., *, before: int | None = None, limit: int = 100
    ) -> Sequence[AuditEntry]:
        """Return entries with numbers below `before`, newest first."""

    def prune(self, *, before: Instant) -> int:
        """Remove the entries older than `before`; return their number."""
