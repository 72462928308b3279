"""Bring a database to the schema this version knows; several processes may do so at once."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

import migrations

from .engine import writing

HEAD = "head"
BASE = "base"
_MIGRATION_LOCK = 0x0DF_0001
"""Key of the PostgreSQL advisory lock that lets one process migrate at a time."""


def migrate(engine: sa.Engine, revision: str = HEAD) -> None:
    """Upgrade to `revision`, in one transaction. Up to date: nothing happens."""
    with writing(engine) as connection:
        _one_at_a_time(connection)
        command.upgrade(_config(connection), revision)


def revert(engine: sa.Engine, revision: str = BASE) -> None:
    """Downgrade to `revision`, in one transaction; `base` drops all tables."""
    with writing(engine) as connection:
        _one_at_a_time(connection)
        command.downgrade(_config(connection), revision)


def _one_at_a_time(connection: sa.Connection) -> None:
    """On SQLite the transaction itself holds the write lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))


def _config(connection: sa.Connection) -> Config:
    config = Config()
    folder = Path(str(migrations.__file__)).parent
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
