"""The failing polls of which a webhook was told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("failing_told", sa.String(200)))


def downgrade() -> None:
    op.drop_column("webhooks", "failing_told")
