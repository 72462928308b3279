"""How far mirrors took over the attestations of the nodes that they follow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attestation_sources",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("after", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_attestation_sources"),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets.id"],
            name="fk_attestation_sources_dataset",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("attestation_sources")
