"""The log of heads: notes of moves, leaves, tiles, its state."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

INSTANT = sa.String(30)
BYTES = sa.LargeBinary
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "unlogged_heads",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("block", BYTES, nullable=False),
        sa.Column("sequence_number", sa.BigInteger),
        sa.Column("visibility", sa.String(20), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_unlogged_heads"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_unlogged_heads_dataset", "unlogged_heads", ["dataset"])
    op.create_table(
        "log_states",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("root", BYTES, nullable=False),
        sa.Column("checkpoint", sa.Text, nullable=False),
        sa.Column("signed_at", INSTANT),
        sa.Column("map_leaf", sa.BigInteger),
        sa.Column("map_at", INSTANT),
        sa.Column("gap_size", sa.BigInteger),
        sa.Column("gap_root", BYTES),
        sa.Column("gap_leaf", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_log_states"),
    )
    op.create_table(
        "log_leaves",
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("entry", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_log_leaves"),
    )
    op.create_table(
        "log_tiles",
        sa.Column("level", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("hashes", BYTES, nullable=False),
        sa.PrimaryKeyConstraint("level", "number", name="pk_log_tiles"),
    )
    op.create_table(
        "logged_heads",
        sa.Column("dataset", BYTES, nullable=False),
        sa.Column("block", BYTES, nullable=False),
        sa.Column("newest", sa.BigInteger, nullable=False),
        sa.Column("mapped", sa.BigInteger),
        sa.PrimaryKeyConstraint("dataset", name="pk_logged_heads"),
    )


def downgrade() -> None:
    for table in ("logged_heads", "log_tiles", "log_leaves", "log_states", "unlogged_heads"):
        op.drop_table(table)
