"""Operation: the audit log, and the trace of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deeds",
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("at", sa.String(30), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("account", sa.String(200)),
        sa.Column("action", sa.String(100), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("outcome", sa.String(40), nullable=False),
        sa.Column("dataset", sa.LargeBinary),
        sa.Column("address", sa.String(100)),
        sa.Column("trace", sa.String(60)),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_deeds"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deeds_at", "deeds", ["at"])
    op.create_index("ix_deeds_dataset", "deeds", ["dataset"])
    op.add_column("jobs", sa.Column("trace", sa.String(60)))


def downgrade() -> None:
    op.drop_column("jobs", "trace")
    op.drop_table("deeds")
