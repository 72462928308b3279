"""Publishing: groups of jobs, repeated requests, schedules, secrets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_LOCK_INDEX = "uq_jobs_lock_running"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("leader", sa.BigInteger))
    op.add_column("jobs", sa.Column("progress", sa.JSON))
    op.add_column("jobs", sa.Column("body", sa.LargeBinary))
    op.add_column("jobs", sa.Column("account", sa.String(200)))
    op.add_column("jobs", sa.Column("schedule", sa.String(200)))
    _index_locks("status = 'running' AND leader IS NULL")
    op.create_table(
        "request_keys",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("account", sa.String(200), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("job", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.String(30), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "account", "key", name="pk_request_keys"),
        _of_dataset("request_keys"),
    )
    op.create_index("ix_request_keys_expires_at", "request_keys", ["expires_at"])
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("cron", sa.String(200)),
        sa.Column("every_s", sa.Integer),
        sa.Column("time_zone", sa.String(100), nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.String(30), nullable=False),
        sa.Column("created_by", sa.String(200)),
        sa.Column("last_at", sa.String(30)),
        sa.Column("next_at", sa.String(30)),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        _of_dataset("schedules"),
    )
    op.create_index("ix_schedules_dataset", "schedules", ["dataset"])
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"])
    op.create_table(
        "variables",
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("is_secret", sa.Boolean, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("key_id", sa.String(100)),
        sa.Column("updated_at", sa.String(30), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_variables"),
    )


def downgrade() -> None:
    for table in ("variables", "schedules", "request_keys"):
        op.drop_table(table)
    _index_locks("status = 'running'")
    for column in ("schedule", "account", "body", "progress", "leader"):
        op.drop_column("jobs", column)


def _index_locks(condition: str) -> None:
    """Anew: which running jobs hold their lock."""
    op.drop_index(_LOCK_INDEX, "jobs")
    where = sa.text(condition)
    op.create_index(
        _LOCK_INDEX, "jobs", ["lock"], unique=True, sqlite_where=where, postgresql_where=where
    )


def _of_dataset(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["dataset"], ["datasets.id"], name=f"fk_{table}_dataset", ondelete="CASCADE"
    )
