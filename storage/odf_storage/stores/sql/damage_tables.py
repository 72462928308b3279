"""The table of damaged objects; see `tables.py` for the column types."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import DatasetIdColumn, HashColumn, InstantColumn, metadata

damages = sa.Table(
    "damages",
    metadata,
    sa.Column(
        "dataset",
        DatasetIdColumn,
        sa.ForeignKey("datasets.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("kind", sa.String(20), primary_key=True),
    sa.Column("hash", HashColumn, primary_key=True),
    sa.Column("found_at", InstantColumn, nullable=False),
    sa.Column("reason", sa.String(20), nullable=False),
    sa.Column("next_at", InstantColumn, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("hopeless", sa.Text),
    sa.Column("healed_at", InstantColumn, index=True),
    sa.Column("healed_from", sa.String(40)),
)
