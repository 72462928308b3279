"""The table of failed logins that services on one database count together."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import InstantColumn, metadata

login_attempts = sa.Table(
    "login_attempts",
    metadata,
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("ends", InstantColumn, nullable=False, index=True),
    sa.Column("count", sa.Integer, nullable=False),
)
"""`key` is a hash of account name and client address, because the name may be a password."""
