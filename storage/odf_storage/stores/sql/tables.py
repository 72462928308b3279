"""The tables, for both SQLite and PostgreSQL. A test checks that `migrations/` agrees with them.

Hashes and ids are stored as bytes. Instants are text of fixed width, which sorts by time and
keeps nanoseconds. Folded columns contain the form of a name that is used for comparison.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import Multihash

INSTANT_CHARS = 30
NAME_CHARS = 100
ALIAS_CHARS = 2 * NAME_CHARS + 1
KEY_CHARS = 200


class HashColumn(TypeDecorator[Multihash]):
    """A multihash in its binary form."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Multihash | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        return None if value is None else value.raw

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> Multihash | None:  # noqa: ARG002
        return None if value is None else Multihash.decode(bytes(value))


class DatasetIdColumn(TypeDecorator[DatasetId]):
    """A dataset id as its 32-byte key."""

    impl = sa.LargeBinary
    cache_ok = True

    def process_bind_param(self, value: DatasetId | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        return None if value is None else value.key

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> DatasetId | None:  # noqa: ARG002
        return None if value is None else DatasetId(bytes(value))


class InstantColumn(TypeDecorator[Instant]):
    """An instant as RFC 3339 text with nine fraction digits, which sorts by time without loss."""

    impl = sa.String(INSTANT_CHARS)
    cache_ok = True

    def process_bind_param(self, value: Instant | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is None:
            return None
        seconds, nanos = divmod(value.ns, NANOS)
        return f"{str(Instant(seconds * NANOS))[:-1]}.{nanos:09}Z"

    def process_result_value(self, value: str | None, dialect: Dialect) -> Instant | None:  # noqa: ARG002
        return None if value is None else Instant.parse(value)


def by_bytes(length: int) -> sa.types.TypeEngine[str]:
    """Text that sorts by bytes on every database, so that pages continue at the right row."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


NumberColumn = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite autoincrements only columns declared as plain INTEGER, which have 64 bits there."""

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

datasets = sa.Table(
    "datasets",
    metadata,
    sa.Column("id", DatasetIdColumn, primary_key=True),
    sa.Column("alias", sa.String(ALIAS_CHARS), nullable=False),
    sa.Column("alias_folded", by_bytes(ALIAS_CHARS), nullable=False, unique=True),
    sa.Column("account_folded", by_bytes(NAME_CHARS), nullable=False, index=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("visibility", sa.String(20), nullable=False),
    sa.Column("created_at", InstantColumn, nullable=False),
    sa.Column("stored_bytes", sa.BigInteger),
)
"""`stored_bytes` is NULL until garbage collection has counted the dataset: `index/sql_sizes.py`."""


def of_dataset(*, is_key: bool = True, index: bool | None = None) -> sa.Column[DatasetId]:
    """Return the column of the dataset to which a row belongs, and with which it is deleted."""
    key = sa.ForeignKey("datasets.id", ondelete="CASCADE")
    return sa.Column(
        "dataset", DatasetIdColumn, key, primary_key=is_key, nullable=False, index=index
    )


former_names = sa.Table(
    "former_names",
    metadata,
    sa.Column("alias_folded", by_bytes(ALIAS_CHARS), primary_key=True),
    of_dataset(is_key=False, index=True),
    sa.Column("until", InstantColumn, nullable=False),
)
"""Names that datasets had before they were renamed, and that no dataset has taken since."""

refs = sa.Table(
    "refs",
    metadata,
    of_dataset(),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("hash", HashColumn, nullable=False),
)

moves = sa.Table(
    "moves",
    metadata,
    sa.Column("number", NumberColumn, primary_key=True, autoincrement=True),
    sa.Column("dataset", DatasetIdColumn, nullable=False),
    sa.Column("ref", sa.String(64), nullable=False),
    sa.Column("old", HashColumn),
    sa.Column("new", HashColumn, nullable=False),
    sa.Column("at", InstantColumn, nullable=False),
    sqlite_autoincrement=True,
)
"""The log of head moves. It outlives datasets, so it has no foreign keys."""

disclosures = sa.Table(
    "disclosures",
    metadata,
    sa.Column("dataset", DatasetIdColumn, primary_key=True),
    sa.Column("at", InstantColumn, nullable=False),
    sa.Column("was_public", sa.Boolean, nullable=False),
    sa.Index("ix_disclosures_at", "at", "dataset"),
)
"""When what everybody may know of a dataset last changed. It outlives datasets, so it has no
foreign keys."""

unlogged_heads = sa.Table(
    "unlogged_heads",
    metadata,
    sa.Column("number", NumberColumn, primary_key=True, autoincrement=True),
    sa.Column("dataset", DatasetIdColumn, nullable=False, index=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("block", HashColumn, nullable=False),
    sa.Column("sequence_number", sa.BigInteger),
    sa.Column("visibility", sa.String(20), nullable=False),
    sa.Column("at", InstantColumn, nullable=False),
    sqlite_autoincrement=True,
)
"""Moves of heads that the log of heads (`registers/signed/head_log.py`) has not taken in yet."""

blocks = sa.Table(
    "blocks",
    metadata,
    of_dataset(),
    sa.Column("hash", HashColumn, primary_key=True),
    sa.Column("sequence_number", sa.BigInteger, nullable=False),
    sa.Column("prev", HashColumn),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("raw", sa.LargeBinary, nullable=False),
    sa.Index("ix_blocks_sequence_number", "dataset", "sequence_number"),
)

stored_objects = sa.Table(
    "stored_objects",
    metadata,
    of_dataset(),
    sa.Column("kind", sa.String(20), primary_key=True),
    sa.Column("hash", HashColumn, primary_key=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("uploaded_at", InstantColumn),
)
"""Objects of datasets, blocks apart; `uploaded_at` is NULL for those that came with a block."""

quotas = sa.Table(
    "quotas",
    metadata,
    sa.Column("owner", sa.String(KEY_CHARS), primary_key=True),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)
"""The owner is the id of an account, or a word of `index/sql_sizes.py`."""

states = sa.Table(
    "states",
    metadata,
    of_dataset(),
    sa.Column("hash", HashColumn, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""One summary of the chain state per dataset: a cache that may be emptied at any time."""

inputs = sa.Table(
    "inputs",
    metadata,
    of_dataset(),
    sa.Column("input", DatasetIdColumn, primary_key=True, index=True),
)
"""Inputs of derivatives. Inputs may be on other nodes, so only `dataset` is a foreign key."""

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("number", NumberColumn, primary_key=True, autoincrement=True),
    sa.Column("tag", sa.String(32), nullable=False),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("dataset", DatasetIdColumn, index=True),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Column("lock", sa.String(KEY_CHARS)),
    sa.Column("dedup_key", sa.String(KEY_CHARS)),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("submitted_at", InstantColumn, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("worker", sa.String(KEY_CHARS)),
    sa.Column("lease_until", InstantColumn),
    sa.Column("finished_at", InstantColumn),
    sa.Column("outcome", sa.JSON(none_as_null=True)),
    sa.Column("leader", sa.BigInteger),
    sa.Column("progress", sa.JSON(none_as_null=True)),
    sa.Column("body", sa.LargeBinary),
    sa.Column("account", sa.String(KEY_CHARS)),
    sa.Column("schedule", sa.String(KEY_CHARS)),
    sa.Column("trace", sa.String(60)),
    sa.Column("deaths", sa.Integer),
    sqlite_autoincrement=True,
)
"""`leader` is the job with which it was claimed; only leaders occupy the lock. A running job
without a worker was put back, and pauses until its lease ends. `dataset` is not a foreign key: the
registry deletes or cancels the jobs of a dataset that is forgotten (`jobs/sql_rows.py`)."""
_waiting = jobs.c.status == "waiting"
_running = sa.and_(jobs.c.status == "running", jobs.c.leader.is_(None))
sa.Index(
    "uq_jobs_dedup_key_waiting",
    jobs.c.dedup_key,
    unique=True,
    sqlite_where=_waiting,
    postgresql_where=_waiting,
)
sa.Index(
    "uq_jobs_lock_running",
    jobs.c.lock,
    unique=True,
    sqlite_where=_running,
    postgresql_where=_running,
)
sa.Index("ix_jobs_status", jobs.c.status, jobs.c.number)
_open = sa.text("status IN ('waiting', 'running')")
sa.Index(
    "ix_jobs_lock_open",
    jobs.c.lock,
    jobs.c.status,
    jobs.c.number,
    sqlite_where=_open,
    postgresql_where=_open,
)

unattested_jobs = sa.Table(
    "unattested_jobs",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
)
"""Jobs that added blocks, of which the node has not attested yet what they did."""

accounts = sa.Table(
    "accounts",
    metadata,
    sa.Column("id", sa.String(KEY_CHARS), primary_key=True),
    sa.Column("name", sa.String(NAME_CHARS), nullable=False),
    sa.Column("name_folded", sa.String(NAME_CHARS), nullable=False, unique=True),
    sa.Column("is_admin", sa.Boolean, nullable=False),
    sa.Column("disabled_at", InstantColumn),
    sa.Column("sessions_end", InstantColumn),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.String(KEY_CHARS), primary_key=True),
    sa.Column(
        "account",
        sa.String(KEY_CHARS),
        sa.ForeignKey("accounts.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False),
    sa.Column("scopes", sa.JSON, nullable=False),
    sa.Column("created_at", InstantColumn, nullable=False),
    sa.Column("expires_at", InstantColumn),
    sa.Column("revoked_at", InstantColumn),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("reach", sa.String(20), nullable=False, server_default="node"),
    sa.Column("dataset", DatasetIdColumn),
)


def _account_key() -> sa.ForeignKey:
    return sa.ForeignKey("accounts.id", ondelete="CASCADE")


passwords = sa.Table(
    "passwords",
    metadata,
    sa.Column("account", sa.String(KEY_CHARS), _account_key(), primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("changed_at", InstantColumn, nullable=False),
)

secrets = sa.Table(
    "secrets",
    metadata,
    sa.Column("name", sa.String(NAME_CHARS), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)
"""Secrets of the node itself, such as the one that signs sessions."""

dataset_keys = sa.Table(
    "dataset_keys",
    metadata,
    of_dataset(),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
    sa.Column("endorsed", sa.LargeBinary),
)
"""Secret keys of datasets, and the key of the node that each said last to publish its dataset."""

roles = sa.Table(
    "roles",
    metadata,
    of_dataset(),
    sa.Column("account", sa.String(KEY_CHARS), _account_key(), primary_key=True, index=True),
    sa.Column("role", sa.String(20), nullable=False),
)

device_logins = sa.Table(
    "device_logins",
    metadata,
    sa.Column("code_hash", sa.LargeBinary, primary_key=True),
    sa.Column("created_at", InstantColumn, nullable=False),
    sa.Column("expires_at", InstantColumn, nullable=False, index=True),
    sa.Column("polled_at", InstantColumn),
    sa.Column("account", sa.String(KEY_CHARS), _account_key()),
    sa.Column("is_denied", sa.Boolean, nullable=False),
    sa.Column("user_code_hash", sa.LargeBinary, index=True),
    sa.Column("client", sa.String(KEY_CHARS)),
    sa.Column("address", sa.String(KEY_CHARS)),
)

uploaded_files = sa.Table(
    "uploaded_files",
    metadata,
    sa.Column("id", sa.String(KEY_CHARS), primary_key=True),
    sa.Column("account", sa.String(KEY_CHARS), _account_key(), nullable=False, index=True),
    sa.Column("file_name", sa.Text, nullable=False),
    sa.Column("content_type", sa.Text),
    sa.Column("created_at", InstantColumn, nullable=False, index=True),
    sa.Column("hash", HashColumn),
    sa.Column("size", sa.BigInteger),
)
