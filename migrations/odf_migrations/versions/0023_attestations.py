"""Attestations of blocks, and jobs of which the node has to attest what they did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "unattested_jobs",
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_unattested_jobs"),
    )
    op.create_table(
        "attestations",
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("block", sa.LargeBinary, nullable=False),
        sa.Column("claim", sa.String(100), nullable=False),
        sa.Column("signer", sa.LargeBinary, nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_attestations"),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets.id"],
            name="fk_attestations_dataset",
            ondelete="CASCADE",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_attestations_block", "attestations", ["dataset", "block"])
    op.create_index("uq_attestations_hash", "attestations", ["dataset", "hash"], unique=True)


def downgrade() -> None:
    for table in ("attestations", "unattested_jobs"):
        op.drop_table(table)
