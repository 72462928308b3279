"""Tables of derivations; see `tables.py` for the column types."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import KEY_CHARS, NAME_CHARS, DatasetIdColumn, InstantColumn, metadata

derivations = sa.Table(
    "derivations",
    metadata,
    sa.Column(
        "dataset",
        DatasetIdColumn,
        sa.ForeignKey("datasets.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("wanted", sa.Boolean),
    sa.Column("due_at", InstantColumn, index=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("job", sa.String(KEY_CHARS), index=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("problem", sa.JSON(none_as_null=True)),
)

cursors = sa.Table(
    "places",
    metadata,
    sa.Column("reader", sa.String(NAME_CHARS), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
"""Positions of the readers of the log of head moves."""
