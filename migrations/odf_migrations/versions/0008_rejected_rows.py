"""Rows that batches were ingested without, kept for some time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rejected_rows",
        sa.Column("job", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("kept_at", sa.String(30), nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_rejected_rows"),
        sa.ForeignKeyConstraint(
            ["job"], ["jobs.number"], name="fk_rejected_rows_job", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_rejected_rows_kept_at", "rejected_rows", ["kept_at"])


def downgrade() -> None:
    op.drop_table("rejected_rows")
