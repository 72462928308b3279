"""Tables for repeated requests, rejected rows, schedules, and variables of sources."""

from __future__ import annotations

import sqlalchemy as sa

from .tables import (
    KEY_CHARS,
    NAME_CHARS,
    HashColumn,
    InstantColumn,
    metadata,
    of_dataset,
)

REQUEST_KEY_CHARS = 255


request_keys = sa.Table(
    "request_keys",
    metadata,
    of_dataset(),
    sa.Column("account", sa.String(KEY_CHARS), primary_key=True),
    sa.Column("key", sa.String(REQUEST_KEY_CHARS), primary_key=True),
    sa.Column("fingerprint", HashColumn, nullable=False),
    sa.Column("job", sa.BigInteger, nullable=False),
    sa.Column("expires_at", InstantColumn, nullable=False, index=True),
)
"""Clients' keys of requests, with their jobs. Job 0 means that the job is being submitted."""

rejected_rows = sa.Table(
    "rejected_rows",
    metadata,
    sa.Column(
        "job",
        sa.BigInteger,
        sa.ForeignKey("jobs.number", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("content", sa.LargeBinary, nullable=False),
    sa.Column("kept_at", InstantColumn, nullable=False, index=True),
)
"""Rows that an ingested batch rejected, as packed NDJSON; written with the job's outcome."""

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("id", sa.String(KEY_CHARS), primary_key=True),
    of_dataset(is_key=False, index=True),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("payload", sa.JSON, nullable=False),
    sa.Column("cron", sa.String(KEY_CHARS)),
    sa.Column("every_s", sa.Integer),
    sa.Column("time_zone", sa.String(NAME_CHARS), nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("created_at", InstantColumn, nullable=False),
    sa.Column("created_by", sa.String(KEY_CHARS)),
    sa.Column("last_at", InstantColumn),
    sa.Column("next_at", InstantColumn, index=True),
)
"""`next_at` is None while the schedule is paused, and if there is no further run."""

variables = sa.Table(
    "variables",
    metadata,
    sa.Column("owner", sa.String(KEY_CHARS), primary_key=True),
    sa.Column("name", sa.String(NAME_CHARS), primary_key=True),
    sa.Column("is_secret", sa.Boolean, nullable=False),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.Column("key_id", sa.String(NAME_CHARS)),
    sa.Column("updated_at", InstantColumn, nullable=False),
)
"""Variables that templates of sources read. `owner` is the id of a dataset or an account; `value`
is encrypted with the key `key_id` if it is a secret. The registry deletes those of a dataset that
is forgotten."""
