"""Accounts and tokens in a SQL database (SQLite or PostgreSQL)."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from ..clock import Clock, system_clock
from ..errors import AccountNameTaken, AccountNotFound, TokenIdTaken, TokenNotFound
from ..sql.engine import insert_new, reading, storable, writing
from ..sql.tables import accounts, tokens
from ..values import Account, AccountId, Scope, Token


class SqlAccountStore:
    """`AccountStore` in SQL."""

    def __init__(self, engine: sa.Engine, *, clock: Clock = system_clock) -> None:
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
            raise AccountNameTaken(account.name) from None

    def find_account(self, name: str) -> Account | None:
        return self._find(accounts.c.name_folded, name.lower())

    def account(self, account: AccountId) -> Account:
        found = self._find(accounts.c.id, account)
        if found is None:
            raise AccountNotFound(account)
        return found

    def put_token(self, token: Token) -> None:
        self.account(token.account)
        try:
            with writing(self._engine) as db:
                db.execute(sa.insert(tokens).values(**_row_of(token)))
        except sa.exc.IntegrityError:
            raise TokenIdTaken(token.id) from None

    def find_token(self, token: str) -> Token | None:
        if not storable(token):
            return None
        with reading(self._engine) as db:
            row = db.execute(sa.select(tokens).where(tokens.c.id == token)).mappings().one_or_none()
        return None if row is None else _token_of(row)

    def tokens(self, account: AccountId) -> Sequence[Token]:
        query = sa.select(tokens).where(tokens.c.account == account)
        with reading(self._engine) as db:
            own = [_token_of(row) for row in db.execute(query).mappings()]
        return sorted(own, key=lambda token: (token.created_at, token.id))

    def revoke_token(self, token: str) -> None:
        if self.find_token(token) is None:
            raise TokenNotFound(token)
        alive = (tokens.c.id == token, tokens.c.revoked_at.is_(None))
        with writing(self._engine) as db:
            db.execute(sa.update(tokens).where(*alive).values(revoked_at=self._clock()))

    def _find(self, column: sa.Column[str], value: str) -> Account | None:
        if not storable(value):
            return None
        with reading(self._engine) as db:
            row = db.execute(sa.select(accounts).where(column == value)).mappings().one_or_none()
        if row is None:
            return None
        return Account(id=AccountId(row["id"]), name=row["name"], is_admin=row["is_admin"])


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
    )
