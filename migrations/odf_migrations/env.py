"""Alembic environment: runs on the connection from `odf_storage/stores/sql/migrate.py`."""

from __future__ import annotations

from alembic import context

from odf_storage.stores.sql import derivation_tables as derivation_tables
from odf_storage.stores.sql import (
    publishing as publishing,  # its tables are among those of `metadata`
)
from odf_storage.stores.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
