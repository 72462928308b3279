"""Every store the contracts are run on: SQLite and a real PostgreSQL, files and buckets."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from backends import BACKENDS, credentials, fresh_place
from databases import emptied, made_ready
from index_parts import Index, ManualClock, TickingClock
from servers import S3Server

from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.index.sql import DatasetRegistry, RefIndex
from odf_storage.stores.index.sql_blocks import SqlBlockIndex
from odf_storage.stores.sql.engine import open_engine, sqlite_url
from odf_storage.stores.sql.migrate import migrate

if TYPE_CHECKING:
    from odf_storage.stores.objects.s3_bucket import Bucket

pytest.register_assert_rewrite("tests.conformance")

DATABASES = ["sqlite", "postgres"]


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_url: str) -> str:
    """A database of our own, with all tables."""
    url = new_database(postgres_url)
    engine = open_engine(url)
    migrate(engine)
    engine.dispose()
    return url


def new_database(postgres_url: str) -> str:
    """An empty database on the server; it goes with the server."""
    name = f"test_{secrets.token_hex(6)}"
    server = open_engine(postgres_url).execution_options(isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    server.dispose()
    return sa.make_url(postgres_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def empty_postgres_url(postgres_url: str) -> str:
    """A database without tables."""
    return new_database(postgres_url)


def database_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """A migrated, empty database of that kind."""
    if kind == "sqlite":
        url = sqlite_url(folder / "test.db")
        engine = open_engine(url, durable=False)
        made_ready(engine)
    else:
        url = request.getfixturevalue("migrated_postgres_url")
        engine = open_engine(url)
        emptied(engine)
    engine.dispose()
    return url


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    engine = open_engine(database_url(request.param, request, tmp_path), durable=False)
    yield engine
    engine.dispose()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def index(database: sa.Engine) -> Index:
    clock = TickingClock()
    return Index(
        DatasetRegistry(database, clock=clock),
        RefIndex(database, clock=clock),
        SqlBlockIndex(database),
    )


@pytest.fixture
def bucket(s3_bucket_url: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A part of the bucket that nobody else uses."""
    from buckets import fresh_location, log_in  # boto3 is slow to import

    from odf_storage.stores.objects.s3_bucket import Bucket

    log_in(monkeypatch, s3)
    return Bucket(fresh_location(s3_bucket_url))


@pytest.fixture(params=BACKENDS)
def stores(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stores]:
    """Whole sets of stores: every pair of database and object store."""
    in_postgres, in_bucket = BACKENDS[request.param]
    place: dict[str, str] = {}
    if in_bucket:
        for name, value in credentials(request.param, request).items():
            monkeypatch.setenv(name, value)
        place["objects_url"] = fresh_place(request)
    url = database_url("postgres" if in_postgres else "sqlite", request, tmp_path)
    settings = StoreSettings(data=tmp_path / "data", database_url=url, durable=False, **place)
    opened = open_stores(settings, migrate=False)
    yield opened
    opened.close()
