"""Accounts of persons who log in by a provider, and until when sessions of an account are over."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("sessions_end", sa.String(30)))
    op.create_table(
        "provider_accounts",
        sa.Column("issuer", sa.String(500), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("account", sa.String(200), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_provider_accounts"),
    )
    op.create_index("ix_provider_accounts_account", "provider_accounts", ["account"])
    op.create_table(
        "provider_sessions",
        sa.Column("issuer", sa.String(500), nullable=False),
        sa.Column("sid", sa.String(255), nullable=False),
        sa.Column("account", sa.String(200), nullable=False),
        sa.Column("ends", sa.String(30), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("issuer", "sid", name="pk_provider_sessions"),
    )
    op.create_index("ix_provider_sessions_ends", "provider_sessions", ["ends"])


def downgrade() -> None:
    op.drop_table("provider_sessions")
    op.drop_table("provider_accounts")
    op.drop_column("accounts", "sessions_end")
