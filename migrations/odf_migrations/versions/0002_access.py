"""Passwords, roles, reach of tokens, device logins, uploaded files, secrets of the node."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INSTANT = sa.String(30)
KEY = sa.String(200)


def upgrade() -> None:
    reach = sa.Column("reach", sa.String(20), nullable=False, server_default="node")
    op.add_column("tokens", reach)
    op.add_column("tokens", sa.Column("dataset", sa.LargeBinary))
    _passwords_and_secrets()
    _roles()
    _device_logins()
    _uploaded_files()


def downgrade() -> None:
    for table in ("uploaded_files", "device_logins", "roles", "secrets", "passwords"):
        op.drop_table(table)
    op.drop_column("tokens", "dataset")
    op.drop_column("tokens", "reach")


def _key_to_account(table: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_account"
    return sa.ForeignKeyConstraint(["account"], ["accounts.id"], name=name, ondelete="CASCADE")


def _passwords_and_secrets() -> None:
    op.create_table(
        "passwords",
        sa.Column("account", KEY, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("changed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("account", name="pk_passwords"),
        _key_to_account("passwords"),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )


def _roles() -> None:
    op.create_table(
        "roles",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("account", KEY, nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "account", name="pk_roles"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_roles_dataset", ondelete="CASCADE"
        ),
        _key_to_account("roles"),
    )
    op.create_index("ix_roles_account", "roles", ["account"])


def _device_logins() -> None:
    op.create_table(
        "device_logins",
        sa.Column("code_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("polled_at", INSTANT),
        sa.Column("account", KEY),
        sa.Column("is_denied", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("code_hash", name="pk_device_logins"),
        _key_to_account("device_logins"),
    )
    op.create_index("ix_device_logins_expires_at", "device_logins", ["expires_at"])


def _uploaded_files() -> None:
    op.create_table(
        "uploaded_files",
        sa.Column("id", KEY, nullable=False),
        sa.Column("account", KEY, nullable=False),
        sa.Column("file_name", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("hash", sa.LargeBinary),
        sa.Column("size", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_uploaded_files"),
        _key_to_account("uploaded_files"),
    )
    op.create_index("ix_uploaded_files_account", "uploaded_files", ["account"])
    op.create_index("ix_uploaded_files_created_at", "uploaded_files", ["created_at"])
