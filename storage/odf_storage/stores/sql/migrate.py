"""Migrates a database to the schema of this version; several processes may do so concurrently.

Alembic is imported only if there is something to migrate: if the schema is current, a start costs
one query.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

import odf_migrations as migrations
from odf_protocol.errors import NodeFault

from .engine import reading, writing

if TYPE_CHECKING:
    from alembic.config import Config


HEAD = "head"
BASE = "base"
FIRST = "0018"
"""Revision of the oldest file in `odf_migrations/versions`: of the first version."""
LATEST = "0028"
"""Revision of the newest file there."""
LAST_CHAIN = "fd0a49ea"
"""The commit that upgrades databases of development versions to `FIRST`."""
_MIGRATION_LOCK = 0x0DF_0001
"""Key of the PostgreSQL advisory lock that serializes migrations."""


def migrate(engine: sa.Engine, revision: str = HEAD) -> None:
    """Upgrade to `revision` in one transaction. Do nothing if the schema is current or newer.

    An older service ignores additions of a newer schema, so it can keep running while newer
    services take over. Revisions are numbers of four digits.

    Raises:
        DatabaseTooOld: the schema is of a version before the first; nothing was changed.
    """
    found = current(engine)
    if found is not None and found < FIRST:
        raise NodeFault(
            "DatabaseTooOld",
            f"the database has schema {found} of a development version, and this version upgrades "
            f"schemas from {FIRST} on; nothing was changed. Run `odf-node db migrate` of commit "
            f"{LAST_CHAIN} first, or name an empty database and fill it from the objects with "
            "`odf-node index rebuild` (accounts and tokens are made anew)",
            schema=found,
            oldest=FIRST,
        )
    if revision == HEAD and (found or "") >= LATEST:
        return
    from alembic import command

    with writing(engine) as connection:
        _one_at_a_time(connection)
        command.upgrade(_config(connection), revision)


def revert(engine: sa.Engine, revision: str = BASE) -> None:
    """Downgrade to `revision` in one transaction; `base` drops all tables."""
    from alembic import command

    with writing(engine) as connection:
        _one_at_a_time(connection)
        command.downgrade(_config(connection), revision)


def current(engine: sa.Engine) -> str | None:
    """Return the revision of a database; None for an empty one."""
    with reading(engine) as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        revision = connection.scalar(sa.text("select version_num from alembic_version"))
        return None if revision is None else str(revision)


def _one_at_a_time(connection: sa.Connection) -> None:
    """Lock out other migrations. On SQLite the transaction already has the write lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))


def _config(connection: sa.Connection) -> Config:
    from alembic.config import Config

    config = Config()
    folder = Path(str(migrations.__file__)).parent
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
