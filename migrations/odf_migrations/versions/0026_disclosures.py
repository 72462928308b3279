"""When what everybody may know of datasets last changed, for catalogues that are harvested."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "disclosures",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String(30), nullable=False),
        sa.Column("was_public", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_disclosures"),
    )
    op.create_index("ix_disclosures_at", "disclosures", ["at", "dataset"])
    op.execute(
        "INSERT INTO disclosures (dataset, at, was_public)"
        " SELECT d.id, COALESCE(m.at, d.created_at), d.visibility = 'Public' FROM datasets d"
        " LEFT JOIN (SELECT dataset, MAX(at) AS at FROM moves GROUP BY dataset) m"
        " ON m.dataset = d.id"
    )


def downgrade() -> None:
    op.drop_table("disclosures")
