"""The table of mirrors; see `tables.py` for the column types."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import DatasetIdColumn, InstantColumn, metadata

MAX_REMOTE_CHARS = 4096

mirrors = sa.Table(
    "mirrors",
    metadata,
    sa.Column(
        "dataset",
        DatasetIdColumn,
        sa.ForeignKey("datasets.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("remote", sa.String(MAX_REMOTE_CHARS), nullable=False),
    sa.Column("sealed_token", sa.LargeBinary),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("checked_at", InstantColumn),
    sa.Column("error", sa.String(100)),
    sa.Column("message", sa.Text),
)
