"""What a node may keep its state in: {SQLite, PostgreSQL} x {local files, S3}, on real servers."""

from __future__ import annotations

import os
import secrets

import pytest
import sqlalchemy as sa

from odf_storage.stores.sql.engine import open_engine

BACKENDS = {
    f"{database}, {objects}": (database == "postgres", objects == "bucket")
    for database in ("sqlite", "postgres")
    for objects in ("files", "bucket")
}
"""PostgreSQL? A bucket?"""
PAIRS = list(BACKENDS) if os.environ.get("ODF_TORTURE") else ["sqlite, files", "postgres, bucket"]
"""Of tests that start nodes: every adapter once. What adapters do alike on any pair is held by the
contract suites and by `tests/storage`, which open all four."""
ONE_PAIR = PAIRS if os.environ.get("ODF_TORTURE") else PAIRS[:1]
"""Of tests to which it is all the same where a node keeps what it has."""
ON_FILES, IN_BUCKETS = (
    [name for name, (_, in_bucket) in BACKENDS.items() if in_bucket is wanted]
    for wanted in (False, True)
)


def backend_urls(name: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """`database_url` and `objects_url` of places nobody else uses, as far as they are not local."""
    in_postgres, in_bucket = BACKENDS[name]
    urls = {}
    if in_postgres:
        urls["database_url"] = new_database(request.getfixturevalue("postgres_url"))
    if in_bucket:
        urls["objects_url"] = fresh_place(request)
    return urls


def fresh_place(request: pytest.FixtureRequest) -> str:
    """Objects URL of a part of the bucket."""
    from buckets import fresh_location  # boto3 is slow to import

    place = fresh_location(request.getfixturevalue("s3_bucket_url"))
    return f"s3+{place.endpoint}/{place.bucket}/{place.prefix}".rstrip("/")


def credentials(name: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables of the environment that open the bucket; none for local files."""
    if not BACKENDS[name][1]:
        return {}
    server = request.getfixturevalue("s3")
    return {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def environment(name: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """The same as settings of processes."""
    urls = backend_urls(name, request)
    settings = {f"ODF_STORE_{key.upper()}": value for key, value in urls.items()}
    return {**settings, **credentials(name, request)}


def new_database(server_url: str) -> str:
    """An empty database on the server; it goes with the server."""
    name = f"test_{secrets.token_hex(6)}_{os.getpid()}"
    server = open_engine(server_url).execution_options(isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    server.dispose()
    return sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)
