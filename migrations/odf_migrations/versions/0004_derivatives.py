"""Derivatives: how they keep up with their inputs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "derivations",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("wanted", sa.Boolean),
        sa.Column("due_at", sa.String(30)),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("job", sa.String(200)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.PrimaryKeyConstraint("dataset", name="pk_derivations"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_derivations_dataset", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_derivations_due_at", "derivations", ["due_at"])
    op.create_index("ix_derivations_job", "derivations", ["job"])
    op.create_table(
        "places",
        sa.Column("reader", sa.String(100), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("reader", name="pk_places"),
    )


def downgrade() -> None:
    op.drop_table("places")
    op.drop_table("derivations")
