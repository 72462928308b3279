"""Witnesses of the log of heads, and logs of other nodes of which this node is a witness."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "log_cosigners",
        sa.Column("witness", sa.String(1000), nullable=False),
        sa.Column("at_s", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("witness", name="pk_log_cosigners"),
    )
    op.create_table(
        "witnessed_logs",
        sa.Column("origin", sa.String(1000), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("root", sa.LargeBinary, nullable=False),
        sa.Column("checkpoint", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("origin", name="pk_witnessed_logs"),
    )


def downgrade() -> None:
    for table in ("witnessed_logs", "log_cosigners"):
        op.drop_table(table)
