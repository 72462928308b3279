"""The schema of version 0.1.0, whose development versions counted up to this revision."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = None
branch_labels = None
depends_on = None

INSTANT = sa.String(30)
KEY = sa.String(200)
BYTES = sa.LargeBinary
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite counts up only columns declared as plain INTEGER, which have 64 bits there."""


def upgrade() -> None:
    _datasets()
    _chains()
    _jobs()
    _of_jobs()
    _schedules()
    _accounts()
    _logins()
    _deeds()
    _followers()
    _webhooks()


def downgrade() -> None:
    for table in (
        *("webhook_attempts", "webhooks"),
        *("definition_authors", "publications", "mirrors", "places", "derivations"),
        *("damages", "deeds", "uploaded_files", "login_attempts", "device_logins"),
        *("roles", "secrets", "passwords", "tokens", "accounts"),
        *("variables", "schedules", "request_keys", "rejected_rows", "jobs"),
        *("overview_words", "overviews", "inputs", "states", "blocks"),
        *("moves", "refs", "former_names", "datasets"),
    ):
        op.drop_table(table)


def _by_bytes(length: int) -> sa.types.TypeEngine[str]:
    """Text that is compared by bytes on every database."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _key(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    """A column that names a row of another table, and whose row goes with that one."""
    name = f"fk_{table}_{column}"
    return sa.ForeignKeyConstraint([column], [other], name=name, ondelete="CASCADE")


def _partial_index(
    name: str, table: str, columns: list[str], condition: str, *, unique: bool = False
) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", BYTES, nullable=False),
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
        "former_names",
        sa.Column("alias_folded", _by_bytes(201), nullable=False),
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("alias_folded", name="pk_former_names"),
        _key("former_names", "dataset", "datasets.id"),
    )
    op.create_index("ix_former_names_dataset", "former_names", ["dataset"])
    op.create_table(
        "refs",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("hash", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "name", name="pk_refs"),
        _key("refs", "dataset", "datasets.id"),
    )
    op.create_table(
        "moves",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("ref", sa.String(64), nullable=False),
        sa.Column("old", BYTES),
        sa.Column("new", BYTES, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_moves"),
        sqlite_autoincrement=True,
    )


def _chains() -> None:
    op.create_table(
        "blocks",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("hash", BYTES, nullable=False),
        sa.Column("sequence_number", sa.BigInteger, nullable=False),
        sa.Column("prev", BYTES),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("raw", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "hash", name="pk_blocks"),
        _key("blocks", "dataset", "datasets.id"),
    )
    op.create_index("ix_blocks_sequence_number", "blocks", ["dataset", "sequence_number"])
    op.create_table(
        "states",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("hash", BYTES, nullable=False),
        sa.Column("content", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_states"),
        _key("states", "dataset", "datasets.id"),
    )
    op.create_table(
        "inputs",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("input", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "input", name="pk_inputs"),
        _key("inputs", "dataset", "datasets.id"),
    )
    op.create_index("ix_inputs_input", "inputs", ["input"])
    op.create_table(
        "overviews",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("head", BYTES, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("data_size", sa.BigInteger, nullable=False),
        sa.Column("blocks", sa.BigInteger, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("license", sa.Text),
        sa.Column("keywords", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_overviews"),
        _key("overviews", "dataset", "datasets.id"),
    )
    op.create_table(
        "overview_words",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("is_keyword", sa.Boolean, nullable=False),
        sa.Column("word", _by_bytes(200), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "is_keyword", "word", name="pk_overview_words"),
        _key("overview_words", "dataset", "datasets.id"),
    )
    op.create_index("ix_overview_words_word", "overview_words", ["is_keyword", "word", "dataset"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("tag", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("dataset", BYTES),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("lock", KEY),
        sa.Column("dedup_key", KEY),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("submitted_at", INSTANT, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("worker", KEY),
        sa.Column("lease_until", INSTANT),
        sa.Column("finished_at", INSTANT),
        sa.Column("outcome", sa.JSON),
        sa.Column("leader", sa.BigInteger),
        sa.Column("progress", sa.JSON),
        sa.Column("body", BYTES),
        sa.Column("account", KEY),
        sa.Column("schedule", KEY),
        sa.Column("trace", sa.String(60)),
        sa.Column("deaths", sa.Integer),
        sa.PrimaryKeyConstraint("number", name="pk_jobs"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_jobs_dataset", "jobs", ["dataset"])
    _partial_index(
        "ix_jobs_lock_open",
        "jobs",
        ["lock", "status", "number"],
        "status IN ('waiting', 'running')",
    )
    op.create_index("ix_jobs_status", "jobs", ["status", "number"])
    _partial_index(
        "uq_jobs_dedup_key_waiting", "jobs", ["dedup_key"], "status = 'waiting'", unique=True
    )
    _partial_index(
        "uq_jobs_lock_running",
        "jobs",
        ["lock"],
        "status = 'running' AND leader IS NULL",
        unique=True,
    )


def _of_jobs() -> None:
    op.create_table(
        "rejected_rows",
        sa.Column("job", sa.BigInteger, nullable=False),
        sa.Column("content", BYTES, nullable=False),
        sa.Column("kept_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("job", name="pk_rejected_rows"),
        _key("rejected_rows", "job", "jobs.number"),
    )
    op.create_index("ix_rejected_rows_kept_at", "rejected_rows", ["kept_at"])
    op.create_table(
        "request_keys",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("account", KEY, nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", BYTES, nullable=False),
        sa.Column("job", sa.BigInteger, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("dataset", "account", "key", name="pk_request_keys"),
        _key("request_keys", "dataset", "datasets.id"),
    )
    op.create_index("ix_request_keys_expires_at", "request_keys", ["expires_at"])


def _schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", KEY, nullable=False),
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("cron", KEY),
        sa.Column("every_s", sa.Integer),
        sa.Column("time_zone", sa.String(100), nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("created_by", KEY),
        sa.Column("last_at", INSTANT),
        sa.Column("next_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        _key("schedules", "dataset", "datasets.id"),
    )
    op.create_index("ix_schedules_dataset", "schedules", ["dataset"])
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"])
    op.create_table(
        "variables",
        sa.Column("owner", KEY, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("is_secret", sa.Boolean, nullable=False),
        sa.Column("value", BYTES, nullable=False),
        sa.Column("key_id", sa.String(100)),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_variables"),
    )


def _accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", KEY, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("name_folded", sa.String(100), nullable=False),
        sa.Column("is_admin", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("name_folded", name="uq_accounts_name_folded"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", KEY, nullable=False),
        sa.Column("account", KEY, nullable=False),
        sa.Column("secret_hash", BYTES, nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sa.Column("revoked_at", INSTANT),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("reach", sa.String(20), server_default="node", nullable=False),
        sa.Column("dataset", BYTES),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        _key("tokens", "account", "accounts.id"),
    )
    op.create_index("ix_tokens_account", "tokens", ["account"])
    op.create_table(
        "passwords",
        sa.Column("account", KEY, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("changed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("account", name="pk_passwords"),
        _key("passwords", "account", "accounts.id"),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("value", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    op.create_table(
        "roles",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("account", KEY, nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "account", name="pk_roles"),
        _key("roles", "dataset", "datasets.id"),
        _key("roles", "account", "accounts.id"),
    )
    op.create_index("ix_roles_account", "roles", ["account"])


def _logins() -> None:
    op.create_table(
        "device_logins",
        sa.Column("code_hash", BYTES, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("polled_at", INSTANT),
        sa.Column("account", KEY),
        sa.Column("is_denied", sa.Boolean, nullable=False),
        sa.Column("user_code_hash", BYTES),
        sa.Column("client", KEY),
        sa.Column("address", KEY),
        sa.PrimaryKeyConstraint("code_hash", name="pk_device_logins"),
        _key("device_logins", "account", "accounts.id"),
    )
    op.create_index("ix_device_logins_expires_at", "device_logins", ["expires_at"])
    op.create_index("ix_device_logins_user_code_hash", "device_logins", ["user_code_hash"])
    op.create_table(
        "login_attempts",
        sa.Column("key", BYTES, nullable=False),
        sa.Column("ends", INSTANT, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_login_attempts"),
    )
    op.create_index("ix_login_attempts_ends", "login_attempts", ["ends"])
    op.create_table(
        "uploaded_files",
        sa.Column("id", KEY, nullable=False),
        sa.Column("account", KEY, nullable=False),
        sa.Column("file_name", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("hash", BYTES),
        sa.Column("size", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_uploaded_files"),
        _key("uploaded_files", "account", "accounts.id"),
    )
    op.create_index("ix_uploaded_files_account", "uploaded_files", ["account"])
    op.create_index("ix_uploaded_files_created_at", "uploaded_files", ["created_at"])


def _deeds() -> None:
    op.create_table(
        "deeds",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor", KEY, nullable=False),
        sa.Column("account", KEY),
        sa.Column("action", sa.String(100), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("outcome", sa.String(40), nullable=False),
        sa.Column("dataset", BYTES),
        sa.Column("address", sa.String(100)),
        sa.Column("trace", sa.String(60)),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_deeds"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deeds_at", "deeds", ["at"])
    op.create_index("ix_deeds_dataset", "deeds", ["dataset"])
    op.create_table(
        "definition_authors",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("definition", BYTES, nullable=False),
        sa.Column("account", KEY),
        sa.Column("reach", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "definition", name="pk_definition_authors"),
        _key("definition_authors", "dataset", "datasets.id"),
    )
    op.create_table(
        "damages",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("hash", BYTES, nullable=False),
        sa.Column("found_at", INSTANT, nullable=False),
        sa.Column("reason", sa.String(20), nullable=False),
        sa.Column("next_at", INSTANT, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("hopeless", sa.Text),
        sa.Column("healed_at", INSTANT),
        sa.Column("healed_from", sa.String(40)),
        sa.PrimaryKeyConstraint("dataset", "kind", "hash", name="pk_damages"),
        _key("damages", "dataset", "datasets.id"),
    )
    op.create_index("ix_damages_healed_at", "damages", ["healed_at"])


def _followers() -> None:
    op.create_table(
        "derivations",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("wanted", sa.Boolean),
        sa.Column("due_at", INSTANT),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("job", KEY),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.PrimaryKeyConstraint("dataset", name="pk_derivations"),
        _key("derivations", "dataset", "datasets.id"),
    )
    op.create_index("ix_derivations_due_at", "derivations", ["due_at"])
    op.create_index("ix_derivations_job", "derivations", ["job"])
    op.create_table(
        "places",
        sa.Column("reader", sa.String(100), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("reader", name="pk_places"),
    )
    op.create_table(
        "mirrors",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("remote", sa.String(4096), nullable=False),
        sa.Column("sealed_token", BYTES),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("checked_at", INSTANT),
        sa.Column("error", sa.String(100)),
        sa.Column("message", sa.Text),
        sa.PrimaryKeyConstraint("dataset", name="pk_mirrors"),
        _key("mirrors", "dataset", "datasets.id"),
    )
    op.create_table(
        "publications",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("store", _by_bytes(2048), nullable=False),
        sa.Column("uuid", _by_bytes(200), nullable=False),
        sa.Column("definition", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("tried_head", BYTES),
        sa.Column("not_before", INSTANT),
        sa.Column("job", KEY),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("problem", sa.JSON),
        sa.Column("shown", sa.JSON),
        sa.PrimaryKeyConstraint("dataset", name="pk_publications"),
        _key("publications", "dataset", "datasets.id"),
    )
    op.create_index("ix_publications_job", "publications", ["job"])
    op.create_index("ix_publications_store_uuid", "publications", ["store", "uuid"], unique=True)


def _webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", KEY, nullable=False),
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("account", KEY, nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("sealed_secret", BYTES, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("position", BYTES),
        sa.Column("resets", sa.Integer, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("not_before", INSTANT),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("failing_since", INSTANT),
        sa.Column("problem", sa.JSON),
        sa.Column("holder", KEY),
        sa.Column("leased_until", INSTANT),
        sa.Column("failing_told", KEY),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        _key("webhooks", "dataset", "datasets.id"),
        _key("webhooks", "account", "accounts.id"),
    )
    op.create_index("ix_webhooks_account", "webhooks", ["account"])
    op.create_index("ix_webhooks_dataset", "webhooks", ["dataset"])
    op.create_table(
        "webhook_attempts",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("webhook", KEY, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("message", sa.String(300), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("error", KEY),
        sa.Column("took_ms", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_webhook_attempts"),
        _key("webhook_attempts", "webhook", "webhooks.id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhook_attempts_webhook", "webhook_attempts", ["webhook"])
