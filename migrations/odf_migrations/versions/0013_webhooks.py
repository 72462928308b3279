"""Webhooks, how far each was told, and what was tried of late."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("account", sa.String(200), nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.String(30), nullable=False),
        sa.Column("position", sa.LargeBinary),
        sa.Column("resets", sa.Integer, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("not_before", sa.String(30)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("failing_since", sa.String(30)),
        sa.Column("problem", sa.JSON),
        sa.Column("holder", sa.String(200)),
        sa.Column("leased_until", sa.String(30)),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_webhooks_dataset", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["account"], ["accounts.id"], name="fk_webhooks_account", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_webhooks_dataset", "webhooks", ["dataset"])
    op.create_index("ix_webhooks_account", "webhooks", ["account"])
    op.create_table(
        "webhook_attempts",
        sa.Column("number", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("webhook", sa.String(200), nullable=False),
        sa.Column("at", sa.String(30), nullable=False),
        sa.Column("message", sa.String(300), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("error", sa.String(200)),
        sa.Column("took_ms", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_webhook_attempts"),
        sa.ForeignKeyConstraint(
            ["webhook"], ["webhooks.id"], name="fk_webhook_attempts_webhook", ondelete="CASCADE"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhook_attempts_webhook", "webhook_attempts", ["webhook"])


def downgrade() -> None:
    op.drop_table("webhook_attempts")
    op.drop_table("webhooks")


_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite counts up only columns declared as plain INTEGER, which are 64 bit there."""
