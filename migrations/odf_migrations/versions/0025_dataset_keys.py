"""Secret keys of datasets, sealed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dataset_keys",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("endorsed", sa.LargeBinary),
        sa.PrimaryKeyConstraint("dataset", name="pk_dataset_keys"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_dataset_keys_dataset", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    op.drop_table("dataset_keys")
