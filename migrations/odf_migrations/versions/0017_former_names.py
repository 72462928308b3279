"""Names that datasets had before they were renamed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "former_names",
        sa.Column("alias_folded", _by_bytes(201), nullable=False),
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("until", sa.String(30), nullable=False),
        sa.PrimaryKeyConstraint("alias_folded", name="pk_former_names"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_former_names_dataset", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_former_names_dataset", "former_names", ["dataset"])


def downgrade() -> None:
    op.drop_table("former_names")


def _by_bytes(length: int) -> sa.types.TypeEngine[str]:
    """Text that is compared by bytes on every database."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
