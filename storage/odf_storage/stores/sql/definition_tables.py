"""The table of the authors of definitions; see `tables.py` for the column types."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import KEY_CHARS, DatasetIdColumn, HashColumn, metadata

definition_authors = sa.Table(
    "definition_authors",
    metadata,
    sa.Column(
        "dataset",
        DatasetIdColumn,
        sa.ForeignKey("datasets.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("definition", HashColumn, primary_key=True),
    sa.Column("account", sa.String(KEY_CHARS)),
    sa.Column("reach", sa.String(20), nullable=False),
)
