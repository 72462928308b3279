"""Connections to SQLite and PostgreSQL: engines, transactions, and their few differences.

SQLite runs in WAL mode. Writers take the write lock at the start of their transaction
(`BEGIN IMMEDIATE`), so that they wait for each other instead of failing halfway.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from odf_protocol.errors import BadInput, NodeError

from ..objects.layout import database_trouble

BUSY_TIMEOUT_S = 30
"""Seconds that a SQLite writer waits for another writer."""
_POOL: dict[str, Any] = {"pool_size": 10, "max_overflow": 20}
LARGE_CACHE_KIB = 64 * 1024
Source = sa.Engine | sa.Connection
"""Where reads run: an engine opens a transaction for each, a connection shares its transaction."""
_WRITES = "writes"
_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


POSTGRES_PORT = 5432


def open_engine(url: str, *, durable: bool = True, pooled: bool = True) -> sa.Engine:
    """Return an engine for `sqlite:///path` or `postgresql://…`, not connected yet.

    With `durable=False` SQLite skips syncs at commit: a power cut may lose the last commits. With
    `pooled=False` every use has a new connection, however many others are in use.

    Raises:
        UnknownDatabase: another scheme, or text that is no URL. The message does not contain the
            URL, which may include a password.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise BadInput(
            "UnknownDatabase", "the database URL cannot be read; one is postgresql://user@host/name"
        ) from None
    backend = parsed.drivername.partition("+")[0]
    pool = _POOL if pooled else {"poolclass": sa.NullPool}
    if backend == "sqlite":
        engine = _open_sqlite(parsed, pool, durable=durable)
    elif backend in ("postgresql", "postgres"):
        address, arguments = _unprepared(parsed.set(drivername="postgresql+psycopg"))
        engine = sa.create_engine(address, connect_args=arguments, pool_pre_ping=True, **pool)
    else:
        raise BadInput("UnknownDatabase", f"databases are sqlite or postgresql, not {backend!r}")
    # convert errors of a database that is full, read-only or unreachable to the node's errors
    sa.event.listen(engine, "handle_error", _translate, retval=True)
    return engine


def _unprepared(url: sa.URL) -> tuple[sa.URL, dict[str, Any]]:
    """Remove `prepare_threshold` from the URL, whose text the driver would not accept.

    Poolers that send transactions to different servers may not support prepared statements.
    """
    wanted = url.query.get("prepare_threshold")
    if wanted is None:
        return url, {}
    if wanted != "none":
        raise BadInput(
            "UnknownDatabase", "prepare_threshold of the database URL can be none, or left out"
        )
    return url.difference_update_query(["prepare_threshold"]), {"prepare_threshold": None}


def _translate(context: Any) -> NodeError | None:
    url = context.engine.url if context.engine is not None else None
    host = f"{url.host}:{url.port or POSTGRES_PORT}" if url is not None and url.host else None
    return database_trouble(context.original_exception, gone=context.is_disconnect, host=host)


def writing(engine: sa.Engine) -> Any:
    """Begin a transaction that writes; it commits if the block succeeds."""
    return engine.execution_options(**{_WRITES: True}).begin()


@contextmanager
def reading(source: Source) -> Iterator[sa.Connection]:
    """Begin a read-only transaction, or use `source` if it is a connection."""
    if isinstance(source, sa.Connection):
        yield source
        return
    with source.connect() as connection:
        yield connection


@contextmanager
def large_cache(db: sa.Connection) -> Iterator[None]:
    """Enlarge SQLite's cache for a transaction that adds very many rows in random order. With the
    usual 2 MB, pages of an index are written and read again and again. Reset after success."""
    if db.dialect.name != "sqlite":
        yield
        return
    usual = db.exec_driver_sql("PRAGMA cache_size").scalar_one()
    db.exec_driver_sql(f"PRAGMA cache_size=-{LARGE_CACHE_KIB}")
    yield
    db.exec_driver_sql(f"PRAGMA cache_size={usual}")


def insert_new(connection: sa.Connection, table: sa.Table) -> Any:
    """Return the database's own insert statement, which supports `on_conflict_…`."""
    return _INSERTS[connection.dialect.name](table)


def plainly(db: sa.Connection, statement: str, values: Any) -> Any:
    """Run a statement of the driver, for one tuple of values or a list of them. `?` stands for a
    value; nothing is converted. Returns the rows, if there are any."""
    if db.dialect.name == "postgresql":
        statement = statement.replace("?", "%s")
    return db.exec_driver_sql(statement, values)


def storable(text: str) -> bool:
    """Return whether the database can store a text: no NUL, no half of a surrogate pair."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _open_sqlite(url: sa.URL, pool: dict[str, Any], *, durable: bool) -> sa.Engine:
    if not url.database or url.database == ":memory:":
        raise BadInput(
            "UnknownDatabase",
            "SQLite needs a file; a throw-away node has one in a temporary folder",
        )
    engine = sa.create_engine(
        url,
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        **pool,
    )
    synchronous = "FULL" if durable else "OFF"

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
