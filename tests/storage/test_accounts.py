"""Accounts and tokens keep their promises on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from index_parts import ManualClock
from tests.conformance.account_store import AccountStoreContract

from odf_storage.stores.registers.accounts.accounts import AccountStore


class TestSqlAccountStore(AccountStoreContract):
    @pytest.fixture
    def accounts(self, database: sa.Engine, clock: ManualClock) -> AccountStore:
        return AccountStore(database, clock=clock)
