"""Overviews have the rows of the newest blocks, and are found by licenses, columns and stems."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # All overviews are made anew, since their words are others; lists do without them until then.
    op.execute("DELETE FROM overviews")
    op.execute("DELETE FROM overview_words")
    op.add_column("overviews", sa.Column("added", sa.JSON))


def downgrade() -> None:
    op.drop_column("overviews", "added")
