"""How many workers ended with a job in hand; an index of what waits under a lock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

OPEN = sa.text("status IN ('waiting', 'running')")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("deaths", sa.Integer))
    op.create_index(
        "ix_jobs_lock_open",
        "jobs",
        ["lock", "status", "number"],
        sqlite_where=OPEN,
        postgresql_where=OPEN,
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_lock_open", "jobs")
    op.drop_column("jobs", "deaths")
