"""Accounts and tokens in a SQL database (SQLite or PostgreSQL).

Failed logins, counted in time windows by all services that share a database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from odf_protocol.instant import NANOS, Instant

from ....runtime.clock import Clock, system_clock
from ...ports.errors import (
    AccountNotFound,
    account_name_taken,
    token_id_taken,
    token_not_found,
)
from ...ports.values import (
    Account,
    AccountId,
    Reach,
    Scope,
    StoredPassword,
    Token,
)
from ...sql.engine import (
    Source,
    insert_new,
    reading,
    storable,
    writing,
)
from ...sql.publishing import variables
from ...sql.tables import (
    InstantColumn,
    accounts,
    metadata,
    passwords,
    quotas,
    secrets,
    tokens,
)

_TOKEN = sa.select(tokens).where(tokens.c.id == sa.bindparam("its_id"))
_ACCOUNTS = {
    column.name: sa.select(accounts).where(column == sa.bindparam("its"))
    for column in (accounts.c.id, accounts.c.name_folded)
}
"""Built once, because every request runs these queries."""


class Identities:
    """Reads that identify a caller: an account, and the hashes of its password and tokens.

    `account` raises `AccountNotFound`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def account(self, account: AccountId) -> Account:
        found = self._find(accounts.c.id, account)
        if found is None:
            raise AccountNotFound(account)
        return found

    def find_password(self, account: AccountId) -> StoredPassword | None:
        if not storable(account):
            return None
        query = sa.select(passwords).where(passwords.c.account == account)
        with reading(self._source) as db:
            row = db.execute(query).mappings().one_or_none()
        return None if row is None else StoredPassword(row["text"], row["changed_at"])

    def find_token(self, token: str) -> Token | None:
        """Return the token with this id."""
        if not storable(token):
            return None
        with reading(self._source) as db:
            row = db.execute(_TOKEN, {"its_id": token}).mappings().one_or_none()
        return None if row is None else _token_of(row)

    def _find(self, column: sa.Column[str], value: str) -> Account | None:
        if not storable(value):
            return None
        with reading(self._source) as db:
            row = db.execute(_ACCOUNTS[column.name], {"its": value}).mappings().one_or_none()
        return None if row is None else _account_of(row)


class AccountStore(Identities):
    """Accounts, whose names are compared case-insensitively, and the hashes of their tokens.

    `put_account` adds or changes an account, and leaves a disabled one disabled; it raises
    `AccountNameTaken` if another account has the name. `set_disabled` and `set_password` raise
    `AccountNotFound`. `put_token` raises `TokenIdTaken` for a known id. `revoke_token` raises
    `TokenNotFound`; revoking a token again changes nothing.
    """

    def __init__(self, engine: sa.Engine, *, clock: Clock = system_clock) -> None:
        super().__init__(engine)
        self._engine = engine
        self._clock = clock

    def put_account(self, account: Account) -> None:
        columns = {
            "name": account.name,
            "name_folded": account.name.lower(),
            "is_admin": account.is_admin,
        }
        try:
            with writing(self._engine) as db:
                insert = insert_new(db, accounts).values(id=account.id, **columns)
                db.execute(insert.on_conflict_do_update(index_elements=["id"], set_=columns))
        except sa.exc.IntegrityError:
            raise account_name_taken(account.name) from None

    def set_disabled(self, account: AccountId, at: Instant | None) -> None:
        """Disable an account, or enable it with None. One that is disabled stays so since then."""
        self.account(account)
        change = sa.update(accounts).where(accounts.c.id == account).values(disabled_at=at)
        if at is not None:
            change = change.where(accounts.c.disabled_at.is_(None))
        with writing(self._engine) as db:
            db.execute(change)

    def empty(self, account: AccountId) -> None:
        """Take everything from the account by which somebody could act as it, and its secrets."""
        with writing(self._engine) as db:
            _empty(db, account)

    def delete(self, account: AccountId) -> None:
        """Delete the account with all that belongs to it. Its datasets are no part of it."""
        with writing(self._engine) as db:
            _empty(db, account)
            db.execute(sa.delete(quotas).where(quotas.c.owner == account))
            db.execute(sa.delete(accounts).where(accounts.c.id == account))

    def end_sessions(self, account: AccountId, at: Instant) -> None:
        """End all sessions of the account that began until then."""
        change = sa.update(accounts).where(accounts.c.id == account).values(sessions_end=at)
        with writing(self._engine) as db:
            db.execute(change)

    def find_account(self, name: str) -> Account | None:
        return self._find(accounts.c.name_folded, name.lower())

    def page(self, *, after: str | None = None, limit: int = 100) -> Sequence[Account]:
        """Return accounts by folded name, only those whose name is greater than `after`."""
        if not storable(after or ""):
            return []
        query = sa.select(accounts).order_by(accounts.c.name_folded).limit(limit)
        if after is not None:
            query = query.where(accounts.c.name_folded > after)
        with reading(self._engine) as db:
            return [_account_of(row) for row in db.execute(query).mappings()]

    def set_password(self, account: AccountId, password: StoredPassword) -> None:
        self.account(account)
        columns = {"text": password.text, "changed_at": password.changed_at}
        with writing(self._engine) as db:
            insert = insert_new(db, passwords).values(account=account, **columns)
            db.execute(insert.on_conflict_do_update(index_elements=["account"], set_=columns))

    def secret(self, name: str, fresh: bytes) -> bytes:
        """Return the node's secret of that name. If there is none, store `fresh`, for ever."""
        query = sa.select(secrets.c.value).where(secrets.c.name == name)
        with writing(self._engine) as db:
            insert = insert_new(db, secrets).values(name=name, value=fresh)
            db.execute(insert.on_conflict_do_nothing())
            return bytes(db.execute(query).scalar_one())

    def replace_secret(self, name: str, old: bytes, new: bytes) -> bool:
        """Replace a secret that is still the old one. Return whether it was."""
        change = sa.update(secrets).where(secrets.c.name == name, secrets.c.value == old)
        with writing(self._engine) as db:
            return bool(db.execute(change.values(value=new)).rowcount)

    def has_secret(self, name: str) -> bool:
        with reading(self._engine) as db:
            found = db.execute(sa.select(secrets.c.name).where(secrets.c.name == name))
            return found.first() is not None

    def put_token(self, token: Token) -> None:
        self.account(token.account)
        try:
            with writing(self._engine) as db:
                db.execute(sa.insert(tokens).values(**_row_of(token)))
        except sa.exc.IntegrityError:
            raise token_id_taken(token.id) from None

    def tokens(self, account: AccountId) -> Sequence[Token]:
        query = sa.select(tokens).where(tokens.c.account == account)
        with reading(self._engine) as db:
            own = [_token_of(row) for row in db.execute(query).mappings()]
        return sorted(own, key=lambda token: (token.created_at, token.id))

    def revoke_token(self, token: str) -> None:
        if self.find_token(token) is None:
            raise token_not_found(token)
        alive = (tokens.c.id == token, tokens.c.revoked_at.is_(None))
        with writing(self._engine) as db:
            db.execute(sa.update(tokens).where(*alive).values(revoked_at=self._clock()))


def _empty(db: sa.Connection, account: AccountId) -> None:
    for table in metadata.sorted_tables:
        for key in table.foreign_keys:
            if key.column is accounts.c.id:
                db.execute(sa.delete(table).where(key.parent == account))
    db.execute(sa.delete(variables).where(variables.c.owner == account))


def _account_of(row: sa.RowMapping) -> Account:
    return Account(
        id=AccountId(row["id"]),
        name=row["name"],
        is_admin=row["is_admin"],
        disabled_at=row["disabled_at"],
        sessions_end=row["sessions_end"],
    )


def _row_of(token: Token) -> dict[str, object]:
    return {
        "id": token.id,
        "account": token.account,
        "secret_hash": token.secret_hash,
        "scopes": sorted(scope.value for scope in token.scopes),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "label": token.label,
        "reach": token.reach.value,
        "dataset": token.dataset,
    }


def _token_of(row: sa.RowMapping) -> Token:
    return Token(
        id=row["id"],
        account=AccountId(row["account"]),
        secret_hash=bytes(row["secret_hash"]),
        scopes=frozenset(Scope(name) for name in row["scopes"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        label=row["label"],
        reach=Reach(row["reach"]),
        dataset=row["dataset"],
    )


login_attempts = sa.Table(
    "login_attempts",
    metadata,
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("ends", InstantColumn, nullable=False, index=True),
    sa.Column("count", sa.Integer, nullable=False),
)
"""`key` is a hash of account name and client address, because the name may be a password."""


class _Full(Exception):
    """Rolls back the transaction that exceeded a limit."""


class LoginAttempts:
    """Counters by key; a key's time window begins with its first failure."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def count(self, limits: Mapping[bytes, int], now: Instant, window: timedelta) -> float | None:
        """Increment the counter of every key and return None. If that exceeds a limit, change
        nothing and return the number of seconds to wait.

        Keys are processed in sorted order, so that two callers with the same keys wait for each
        other instead of deadlocking.
        """
        ends = Instant(now.ns + int(window.total_seconds()) * NANOS)
        waits: list[float] = []
        try:
            with writing(self._engine) as db:
                db.execute(sa.delete(login_attempts).where(login_attempts.c.ends <= now))
                for key in sorted(limits):
                    new = insert_new(db, login_attempts).values(key=key, ends=ends, count=1)
                    more = new.on_conflict_do_update(
                        index_elements=["key"], set_={"count": login_attempts.c.count + 1}
                    )
                    row = db.execute(
                        more.returning(login_attempts.c.count, login_attempts.c.ends)
                    ).one()
                    if row.count > limits[key]:
                        waits.append((row.ends.ns - now.ns) / NANOS)
                if waits:
                    raise _Full
        except _Full:
            return max(waits)
        return None

    def forgive(self, own: bytes, wider: Sequence[bytes]) -> None:
        """Delete the counter of `own`, and subtract its count from the `wider` counters."""
        with writing(self._engine) as db:
            gone = (
                sa.delete(login_attempts)
                .where(login_attempts.c.key == own)
                .returning(login_attempts.c.count)
            )
            count = db.execute(gone).scalar_one_or_none()
            if count is not None:
                less = sa.case(
                    (login_attempts.c.count > count, login_attempts.c.count - count), else_=0
                )
                db.execute(
                    sa.update(login_attempts)
                    .where(login_attempts.c.key.in_(wider))
                    .values(count=less)
                )

    def kept(self) -> int:
        """Return the number of keys that have a counter."""
        with reading(self._engine) as db:
            return int(
                db.execute(sa.select(sa.func.count()).select_from(login_attempts)).scalar_one()
            )
