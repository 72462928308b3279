"""Who defined the transforms and sources that are in force."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "definition_authors",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("definition", sa.LargeBinary, nullable=False),
        sa.Column("account", sa.String(200)),
        sa.Column("reach", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "definition", name="pk_definition_authors"),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets.id"],
            name="fk_definition_authors_dataset",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("definition_authors")
