"""Accounts and tokens in memory: for tests and throw-away nodes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from ..clock import Clock, system_clock
from ..errors import AccountNameTaken, AccountNotFound, TokenIdTaken, TokenNotFound
from ..values import Account, AccountId, StoredPassword, Token


class MemoryAccountStore:
    """`AccountStore` in memory."""

    def __init__(self, *, clock: Clock = system_clock) -> None:
        self._accounts: dict[AccountId, Account] = {}
        self._tokens: dict[str, Token] = {}
        self._passwords: dict[AccountId, StoredPassword] = {}
        self._secrets: dict[str, bytes] = {}
        self._lock = threading.RLock()
        self._clock = clock

    def put_account(self, account: Account) -> None:
        with self._lock:
            known = self.find_account(account.name)
            if known is not None and known.id != account.id:
                raise AccountNameTaken(account.name)
            self._accounts[account.id] = account

    def find_account(self, name: str) -> Account | None:
        with self._lock:
            found = (a for a in self._accounts.values() if a.name.lower() == name.lower())
            return next(found, None)

    def account(self, account: AccountId) -> Account:
        with self._lock:
            if account not in self._accounts:
                raise AccountNotFound(account)
            return self._accounts[account]

    def page(self, *, after: str | None = None, limit: int = 100) -> Sequence[Account]:
        with self._lock:
            by_name = {account.name.lower(): account for account in self._accounts.values()}
        names = sorted(name for name in by_name if after is None or name > after)
        return [by_name[name] for name in names[:limit]]

    def set_password(self, account: AccountId, password: StoredPassword) -> None:
        with self._lock:
            self.account(account)
            self._passwords[account] = password

    def find_password(self, account: AccountId) -> StoredPassword | None:
        return self._passwords.get(account)

    def secret(self, name: str, fresh: bytes) -> bytes:
        with self._lock:
            return self._secrets.setdefault(name, fresh)

    def put_token(self, token: Token) -> None:
        with self._lock:
            self.account(token.account)
            if token.id in self._tokens:
                raise TokenIdTaken(token.id)
            self._tokens[token.id] = token

    def find_token(self, token: str) -> Token | None:
        return self._tokens.get(token)

    def tokens(self, account: AccountId) -> Sequence[Token]:
        with self._lock:
            own = [token for token in self._tokens.values() if token.account == account]
        return sorted(own, key=lambda token: (token.created_at, token.id))

    def revoke_token(self, token: str) -> None:
        with self._lock:
            if token not in self._tokens:
                raise TokenNotFound(token)
            if self._tokens[token].revoked_at is None:
                self._tokens[token] = replace(self._tokens[token], revoked_at=self._clock())
