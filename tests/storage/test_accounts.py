"""Accounts and tokens keep their promises on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from index_parts import ManualClock
from tests.conformance.account_store import AccountStoreContract

from odf_storage.stores.ports import AccountStore
from odf_storage.stores.registers.accounts import SqlAccountStore


class TestSqlAccountStore(AccountStoreContract):
    @pytest.fixture
    def accounts(self, database: sa.Engine, clock: ManualClock) -> AccountStore:
        return SqlAccountStore(database, clock=clock)
