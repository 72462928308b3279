"""What datasets take, and the quotas that limit it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("datasets", sa.Column("stored_bytes", sa.BigInteger))
    op.create_table(
        "stored_objects",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("uploaded_at", sa.String(30)),
        sa.PrimaryKeyConstraint("dataset", "kind", "hash", name="pk_stored_objects"),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets.id"],
            name="fk_stored_objects_dataset",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "quotas",
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_quotas"),
    )


def downgrade() -> None:
    for table in ("quotas", "stored_objects"):
        op.drop_table(table)
    op.drop_column("datasets", "stored_bytes")
