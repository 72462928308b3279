"""Places of their own for what is killed."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from odf_storage.stores.sql.engine import open_engine


@pytest.fixture(scope="module")
def new_postgres_url(postgres_url: str) -> Callable[[], str]:
    """Makes empty databases on the server of the run."""

    def make() -> str:
        name = f"torture_{secrets.token_hex(6)}"
        server = open_engine(postgres_url).execution_options(isolation_level="AUTOCOMMIT")
        with server.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        server.dispose()
        return sa.make_url(postgres_url).set(database=name).render_as_string(hide_password=False)

    return make
