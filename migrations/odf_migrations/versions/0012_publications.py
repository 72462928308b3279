"""Datasets that are published for other programs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "publications",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("store", _by_bytes(2048), nullable=False),
        sa.Column("uuid", _by_bytes(200), nullable=False),
        sa.Column("definition", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("tried_head", sa.LargeBinary),
        sa.Column("not_before", sa.String(30)),
        sa.Column("job", sa.String(200)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("shown", sa.JSON),
        sa.PrimaryKeyConstraint("dataset", name="pk_publications"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_publications_dataset", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_publications_job", "publications", ["job"])
    op.create_index("ix_publications_store_uuid", "publications", ["store", "uuid"], unique=True)


def downgrade() -> None:
    op.drop_table("publications")


def _by_bytes(length: int) -> sa.types.TypeEngine[str]:
    """Text that is compared by bytes on every database."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
