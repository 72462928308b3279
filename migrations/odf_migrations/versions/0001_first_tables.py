"""First tables: datasets, references and their log, blocks, inputs, jobs, accounts, tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

INSTANT = sa.String(30)
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _datasets()
    _blocks()
    _jobs()
    _accounts()


def downgrade() -> None:
    for table in ("tokens", "accounts", "jobs", "inputs", "blocks", "moves", "refs", "datasets"):
        op.drop_table(table)


def _by_bytes(length: int) -> sa.types.TypeEngine[str]:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.LargeBinary, nullable=False),
        sa.Column("alias", sa.String(201), nullable=False),
        sa.Column("alias_folded", _by_bytes(201), nullable=False),
        sa.Column("account_folded", _by_bytes(100), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("visibility", sa.String(20), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sa.UniqueConstraint("alias_folded", name="uq_datasets_alias_folded"),
    )
    op.create_index("ix_datasets_account_folded", "datasets", ["account_folded"])
    op.create_table(
        "refs",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "name", name="pk_refs"),
        _key_to_dataset("refs"),
    )
    op.create_table(
        "moves",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("ref", sa.String(64), nullable=False),
        sa.Column("old", sa.LargeBinary),
        sa.Column("new", sa.LargeBinary, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_moves"),
        sqlite_autoincrement=True,
    )


def _key_to_dataset(table: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_dataset"
    return sa.ForeignKeyConstraint(["dataset"], ["datasets.id"], name=name, ondelete="CASCADE")


def _blocks() -> None:
    op.create_table(
        "blocks",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("sequence_number", sa.BigInteger, nullable=False),
        sa.Column("prev", sa.LargeBinary),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "hash", name="pk_blocks"),
        _key_to_dataset("blocks"),
    )
    op.create_index("ix_blocks_sequence_number", "blocks", ["dataset", "sequence_number"])
    op.create_table(
        "inputs",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("input", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "input", name="pk_inputs"),
        _key_to_dataset("inputs"),
    )
    op.create_index("ix_inputs_input", "inputs", ["input"])


def _jobs() -> None:
    jobs = op.create_table(
        "jobs",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("tag", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("dataset", sa.LargeBinary),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("lock", sa.String(200)),
        sa.Column("dedup_key", sa.String(200)),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("submitted_at", INSTANT, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(200)),
        sa.Column("lease_until", INSTANT),
        sa.Column("finished_at", INSTANT),
        sa.Column("outcome", sa.JSON),
        sa.PrimaryKeyConstraint("number", name="pk_jobs"),
        sqlite_autoincrement=True,
    )
    waiting, running = jobs.c.status == "waiting", jobs.c.status == "running"
    op.create_index("ix_jobs_dataset", "jobs", ["dataset"])
    op.create_index("ix_jobs_status", "jobs", ["status", "number"])
    op.create_index(
        "uq_jobs_dedup_key_waiting",
        "jobs",
        ["dedup_key"],
        unique=True,
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    op.create_index(
        "uq_jobs_lock_running",
        "jobs",
        ["lock"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )


def _accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("name_folded", sa.String(100), nullable=False),
        sa.Column("is_admin", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("name_folded", name="uq_accounts_name_folded"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("account", sa.String(200), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary, nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sa.Column("revoked_at", INSTANT),
        sa.Column("label", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.ForeignKeyConstraint(
            ["account"], ["accounts.id"], name="fk_tokens_account", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_tokens_account", "tokens", ["account"])
