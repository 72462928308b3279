"""The short code that a user types to find a waiting command line, and who waits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("device_logins", sa.Column("user_code_hash", sa.LargeBinary))
    op.add_column("device_logins", sa.Column("client", sa.String(200)))
    op.add_column("device_logins", sa.Column("address", sa.String(200)))
    op.create_index("ix_device_logins_user_code_hash", "device_logins", ["user_code_hash"])


def downgrade() -> None:
    op.drop_index("ix_device_logins_user_code_hash", "device_logins")
    for name in ("user_code_hash", "client", "address"):
        op.drop_column("device_logins", name)
