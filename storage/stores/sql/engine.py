"""Connections to SQLite and PostgreSQL: opening, transactions, the few differences.

SQLite runs in WAL mode; writers take the write lock at the start of their transaction
(`BEGIN IMMEDIATE`), so they wait for each other instead of failing halfway.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from odf_node.protocol.errors import BadInput, NodeError

from ..objects.storage_failures import database_trouble

BUSY_TIMEOUT_S = 30
"""How long a SQLite writer waits for another one."""
POOL_SIZE = 10
POOL_OVERFLOW = 20
LARGE_CACHE_KIB = 64 * 1024
Source = sa.Engine | sa.Connection
"""Where reads go: an engine gives each a transaction, a connection is one they share."""
_WRITES = "writes"
_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class UnknownDatabase(BadInput):
    """A database URL that is neither SQLite nor PostgreSQL."""


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def open_engine(url: str, *, durable: bool = True) -> sa.Engine:
    """Engine for `sqlite:///path` or `postgresql://…`; nothing is connected yet.

    `durable=False` lets SQLite skip syncs at commit: a power cut may undo the last commits,
    nothing gets torn.

    Raises:
        UnknownDatabase: another scheme, or text that is no URL. The URL is not repeated:
            it may hold a password.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise UnknownDatabase(
            "the database URL cannot be read; one is postgresql://user@host/name"
        ) from None
    backend = parsed.drivername.partition("+")[0]
    if backend == "sqlite":
        engine = _open_sqlite(parsed, durable=durable)
    elif backend in ("postgresql", "postgres"):
        address, arguments = _unprepared(parsed.set(drivername="postgresql+psycopg"))
        engine = sa.create_engine(
            address,
            connect_args=arguments,
            pool_pre_ping=True,
            pool_size=POOL_SIZE,
            max_overflow=POOL_OVERFLOW,
        )
    else:
        raise UnknownDatabase(f"databases are sqlite or postgresql, not {backend!r}")
    # errors of a database that is full, read-only or gone become ours
    sa.event.listen(engine, "handle_error", _translate, retval=True)
    return engine


def _unprepared(url: sa.URL) -> tuple[sa.URL, dict[str, Any]]:
    """The URL without `prepare_threshold`, which the driver does not take as the text it is there.

    Poolers that hand each transaction to another server may not know prepared statements.
    """
    wanted = url.query.get("prepare_threshold")
    if wanted is None:
        return url, {}
    if wanted != "none":
        raise UnknownDatabase("prepare_threshold of the database URL can be none, or left out")
    return url.difference_update_query(["prepare_threshold"]), {"prepare_threshold": None}


def _translate(context: Any) -> NodeError | None:
    return database_trouble(context.original_exception, gone=context.is_disconnect)


def writing(engine: sa.Engine) -> Any:
    """A transaction that changes something; commits when the block ends well."""
    return engine.execution_options(**{_WRITES: True}).begin()


@contextmanager
def reading(source: Source) -> Iterator[sa.Connection]:
    """A transaction that only reads; the one of `source` if that is a connection."""
    if isinstance(source, sa.Connection):
        yield source
        return
    with source.connect() as connection:
        yield connection


@contextmanager
def large_cache(db: sa.Connection) -> Iterator[None]:
    """For a transaction that adds very many rows in no order: SQLite's usual cache of 2 MB makes
    it write and read the pages of an index again and again. Goes back to that when it ends well."""
    if db.dialect.name != "sqlite":
        yield
        return
    usual = db.exec_driver_sql("PRAGMA cache_size").scalar_one()
    db.exec_driver_sql(f"PRAGMA cache_size=-{LARGE_CACHE_KIB}")
    yield
    db.exec_driver_sql(f"PRAGMA cache_size={usual}")


def insert_new(connection: sa.Connection, table: sa.Table) -> Any:
    """An insert of the database at hand that can say `on_conflict_…`."""
    return _INSERTS[connection.dialect.name](table)


def storable(text: str) -> bool:
    """Whether a text can be in the database at all: no NUL, no half of a surrogate pair."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _open_sqlite(url: sa.URL, *, durable: bool) -> sa.Engine:
    if not url.database or url.database == ":memory:":
        raise UnknownDatabase(
            "SQLite needs a file; a throw-away node has one in a temporary folder"
        )
    engine = sa.create_engine(
        url,
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
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
