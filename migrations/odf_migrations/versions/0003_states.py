"""Summaries of chain states."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "states",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_states"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_states_dataset", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("states")
