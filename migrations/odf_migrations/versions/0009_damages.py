"""Objects that were found damaged or missing, until they are whole again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "damages",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("found_at", sa.String(30), nullable=False),
        sa.Column("reason", sa.String(20), nullable=False),
        sa.Column("next_at", sa.String(30), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("hopeless", sa.Text),
        sa.Column("healed_at", sa.String(30)),
        sa.Column("healed_from", sa.String(40)),
        sa.PrimaryKeyConstraint("dataset", "kind", "hash", name="pk_damages"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_damages_dataset", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_damages_healed_at", "damages", ["healed_at"])


def downgrade() -> None:
    op.drop_table("damages")
