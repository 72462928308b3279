"""Accounts of persons who log in by an identity provider, in a SQL database.

A person is an issuer and a subject, as the provider says them. Names and addresses of mail may
change hands, so they are no key.
"""

from __future__ import annotations

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ...ports.errors import account_name_taken
from ...ports.values import Account, AccountId
from ...sql.engine import (
    insert_new,
    reading,
    storable,
    writing,
)
from ...sql.tables import (
    KEY_CHARS,
    InstantColumn,
    accounts,
    metadata,
)

ISSUER_CHARS, SUBJECT_CHARS = 500, 255
"""A subject has at most 255 characters by the standard."""


def _account() -> sa.Column[str]:
    key = sa.ForeignKey("accounts.id", ondelete="CASCADE")
    return sa.Column("account", sa.String(KEY_CHARS), key, nullable=False)


persons = sa.Table(
    "provider_accounts",
    metadata,
    sa.Column("issuer", sa.String(ISSUER_CHARS), primary_key=True),
    sa.Column("subject", sa.String(SUBJECT_CHARS), primary_key=True),
    _account(),
    sa.Index("ix_provider_accounts_account", "account"),
)
sessions = sa.Table(
    "provider_sessions",
    metadata,
    sa.Column("issuer", sa.String(ISSUER_CHARS), primary_key=True),
    sa.Column("sid", sa.String(SUBJECT_CHARS), primary_key=True),
    _account(),
    sa.Column("ends", InstantColumn, nullable=False),
    sa.Index("ix_provider_sessions_ends", "ends"),
)
"""Sessions at the provider by which somebody logged in here; it names one when it ends."""


class ProviderAccounts:
    """Which account a person has. Several persons may have one account."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def find(self, issuer: str, subject: str) -> AccountId | None:
        return self._find(persons, persons.c.subject, issuer, subject)

    def find_session(self, issuer: str, sid: str) -> AccountId | None:
        return self._find(sessions, sessions.c.sid, issuer, sid)

    def create(self, issuer: str, subject: str, account: Account) -> AccountId:
        """Create an account for the person; return that which another request was first to make.

        Raises:
            AccountNameTaken.
        """
        made = {"id": account.id, "name": account.name, "name_folded": account.name.lower()}
        its = {"issuer": issuer, "subject": subject, "account": account.id}
        try:
            with writing(self._engine) as db:
                db.execute(sa.insert(accounts).values(**made, is_admin=account.is_admin))
                db.execute(sa.insert(persons).values(**its))
        except sa.exc.IntegrityError:
            known = self.find(issuer, subject)
            if known is None:
                raise account_name_taken(account.name) from None
            return known
        return account.id

    def link(self, issuer: str, subject: str, account: AccountId) -> None:
        """Give the person this account from now on."""
        key = {"issuer": issuer, "subject": subject}
        with writing(self._engine) as db:
            row = insert_new(db, persons).values(**key, account=account)
            db.execute(row.on_conflict_do_update(index_elements=[*key], set_={"account": account}))

    def unlink(self, account: AccountId) -> int:
        """Take the account from all its persons; return how many they were."""
        with writing(self._engine) as db:
            gone = db.execute(sa.delete(persons).where(persons.c.account == account))
            return int(gone.rowcount)

    def begin_session(
        self, issuer: str, sid: str, account: AccountId, *, now: Instant, ends: Instant
    ) -> None:
        """Keep which account a session at the provider is of, and forget those that ended."""
        key = {"issuer": issuer, "sid": sid}
        its = {"account": account, "ends": ends}
        with writing(self._engine) as db:
            db.execute(sa.delete(sessions).where(sessions.c.ends <= now))
            row = insert_new(db, sessions).values(**key, **its)
            db.execute(row.on_conflict_do_update(index_elements=[*key], set_=its))

    def _find(
        self, table: sa.Table, column: sa.Column[str], issuer: str, value: str
    ) -> AccountId | None:
        if not storable(value):
            return None
        query = sa.select(table.c.account).where(table.c.issuer == issuer, column == value)
        with reading(self._engine) as db:
            found = db.execute(query).scalar_one_or_none()
        return None if found is None else AccountId(found)
