"""Mirrors of datasets of other nodes; failed logins that services count together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mirrors",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("remote", sa.String(4096), nullable=False),
        sa.Column("sealed_token", sa.LargeBinary),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("checked_at", sa.String(30)),
        sa.Column("error", sa.String(100)),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("dataset", name="pk_mirrors"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_mirrors_dataset", ondelete="CASCADE"
        ),
    )

    op.create_table(
        "login_attempts",
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("ends", sa.String(30), nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_login_attempts"),
    )
    op.create_index("ix_login_attempts_ends", "login_attempts", ["ends"])


def downgrade() -> None:
    op.drop_table("login_attempts")
    op.drop_table("mirrors")
