"""The table of the audit log; see `tables.py` for the column types."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import DatasetIdColumn, InstantColumn, metadata

audit_entries = sa.Table(
    "deeds",
    metadata,
    sa.Column(
        "number",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    sa.Column("at", InstantColumn, nullable=False, index=True),
    sa.Column("actor", sa.String(200), nullable=False),
    sa.Column("account", sa.String(200)),
    sa.Column("action", sa.String(100), nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("outcome", sa.String(40), nullable=False),
    sa.Column("dataset", DatasetIdColumn, index=True),
    sa.Column("address", sa.String(100)),
    sa.Column("trace", sa.String(60)),
    sa.Column("facts", sa.JSON, nullable=False),
    sqlite_autoincrement=True,
)
"""The dataset is not a foreign key, because entries outlive datasets."""
