"""Places of their own for what is killed."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

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


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """PostgreSQL may run as somebody else, and runs of pytest close the folders above `tmp_path`
    to others whenever one starts."""
    folder = Path(tempfile.mkdtemp(prefix="odf-torture-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
