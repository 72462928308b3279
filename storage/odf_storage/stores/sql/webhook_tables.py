"""Tables of webhooks; see `tables.py` for the column types."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import KEY_CHARS, DatasetIdColumn, HashColumn, InstantColumn, metadata

MAX_URL_CHARS = 2048
MESSAGE_CHARS = 300
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.String(KEY_CHARS), primary_key=True),
    sa.Column(
        "dataset",
        DatasetIdColumn,
        sa.ForeignKey("datasets.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column(
        "account",
        sa.String(KEY_CHARS),
        sa.ForeignKey("accounts.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("url", sa.String(MAX_URL_CHARS), nullable=False),
    sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
    sa.Column("created_at", InstantColumn, nullable=False),
    sa.Column("position", HashColumn),
    sa.Column("resets", sa.Integer, nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("not_before", InstantColumn),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("failing_since", InstantColumn),
    sa.Column("problem", sa.JSON(none_as_null=True)),
    sa.Column("holder", sa.String(KEY_CHARS)),
    sa.Column("leased_until", InstantColumn),
    sa.Column("failing_told", sa.String(KEY_CHARS)),
)

webhook_attempts = sa.Table(
    "webhook_attempts",
    metadata,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column(
        "webhook",
        sa.String(KEY_CHARS),
        sa.ForeignKey("webhooks.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("at", InstantColumn, nullable=False),
    sa.Column("message", sa.String(MESSAGE_CHARS), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("error", sa.String(KEY_CHARS)),
    sa.Column("took_ms", sa.Integer, nullable=False),
    sqlite_autoincrement=True,
)
"""The newest attempts of each webhook; `status` is the HTTP status of the response."""
