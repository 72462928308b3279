"""Alembic environment: runs on the connection from `odf_storage/stores/sql/migrate.py`."""

from __future__ import annotations

from alembic import context

from odf_storage.stores.registers import (  # their tables are among those of `metadata`
    accounts as accounts,
)
from odf_storage.stores.registers import audit as audit
from odf_storage.stores.registers import damages as damages
from odf_storage.stores.registers import following as following
from odf_storage.stores.registers import publications as publications
from odf_storage.stores.registers import webhooks as webhooks
from odf_storage.stores.sql import publishing as publishing
from odf_storage.stores.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
