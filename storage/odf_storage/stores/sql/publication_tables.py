"""The table of publications; see `tables.py` for the column types."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import KEY_CHARS, DatasetIdColumn, HashColumn, InstantColumn, by_bytes, metadata

MAX_STORE_CHARS = 2048
MAX_UUID_CHARS = 200

publications = sa.Table(
    "publications",
    metadata,
    sa.Column(
        "dataset",
        DatasetIdColumn,
        sa.ForeignKey("datasets.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    sa.Column("store", by_bytes(MAX_STORE_CHARS), nullable=False),
    sa.Column("uuid", by_bytes(MAX_UUID_CHARS), nullable=False),
    sa.Column("definition", sa.JSON, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("tried_head", HashColumn),
    sa.Column("not_before", InstantColumn),
    sa.Column("job", sa.String(KEY_CHARS), index=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("problem", sa.JSON(none_as_null=True)),
    sa.Column("shown", sa.JSON(none_as_null=True)),
    sa.Index("ix_publications_store_uuid", "store", "uuid", unique=True),
)
"""`store` is empty if the node serves the publication itself."""
