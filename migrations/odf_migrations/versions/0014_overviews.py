"""What lists of datasets show, and the words that searches find. Services fill it in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "overviews",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("data_size", sa.BigInteger, nullable=False),
        sa.Column("blocks", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.String(30), nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("license", sa.Text),
        sa.Column("keywords", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_overviews"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_overviews_dataset", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "overview_words",
        sa.Column("dataset", sa.LargeBinary, nullable=False),
        sa.Column("is_keyword", sa.Boolean, nullable=False),
        sa.Column("word", _by_bytes(200), nullable=False),
        sa.PrimaryKeyConstraint("dataset", "is_keyword", "word", name="pk_overview_words"),
        sa.ForeignKeyConstraint(
            ["dataset"], ["datasets.id"], name="fk_overview_words_dataset", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_overview_words_word", "overview_words", ["is_keyword", "word", "dataset"])


def downgrade() -> None:
    op.drop_table("overview_words")
    op.drop_table("overviews")


def _by_bytes(length: int) -> sa.types.TypeEngine[str]:
    """Text that is compared by bytes on every database."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")
