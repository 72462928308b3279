"""Alembic environment: runs on the connection from `odf_storage/stores/sql/migrate.py`."""

from __future__ import annotations

from alembic import context

from odf_storage.stores.sql import publishing as publishing
from odf_storage.stores.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
