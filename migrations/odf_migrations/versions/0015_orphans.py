"""Removes the jobs and variables of deleted datasets, which deletion left behind until now."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "DELETE FROM rejected_rows WHERE job IN (SELECT number FROM jobs"
        " WHERE dataset IS NOT NULL AND dataset NOT IN (SELECT id FROM datasets))"
    )
    op.execute(
        "DELETE FROM jobs WHERE dataset IS NOT NULL AND dataset NOT IN (SELECT id FROM datasets)"
    )
    db = op.get_bind()
    owners = {_did(key) for key in db.execute(sa.text("SELECT id FROM datasets")).scalars()}
    owners.update(db.execute(sa.text("SELECT id FROM accounts")).scalars())
    kept = db.execute(sa.text("SELECT DISTINCT owner FROM variables")).scalars().all()
    gone = [{"owner": owner} for owner in kept if owner not in owners]
    if gone:
        db.execute(sa.text("DELETE FROM variables WHERE owner = :owner"), gone)


def downgrade() -> None:
    """The rows belonged to nobody, so nothing brings them back."""


def _did(key: bytes) -> str:
    """Return the text form of a dataset's id, by which its variables name it."""
    return f"did:odf:fed01{bytes(key).hex()}"
