"""Since when an account is disabled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("disabled_at", sa.String(30)))


def downgrade() -> None:
    op.drop_column("accounts", "disabled_at")
