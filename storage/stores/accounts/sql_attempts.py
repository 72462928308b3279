"""Failed logins of all services on one database, counted in windows of time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import sqlalchemy as sa

from odf_node.protocol.instant import NANOS, Instant

from ..sql.attempt_tables import login_attempts as rows
from ..sql.engine import insert_new, reading, writing


class _Full(Exception):
    """Ends the transaction in which too much was counted."""


class SqlAttempts:
    """Counts by key; a window begins with the first."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def count(self, limits: Mapping[bytes, int], now: Instant, window: timedelta) -> float | None:
        """Count one more for every key: None. Or count nothing: seconds to wait.

        Keys are taken in order, so that two that count the same ones wait for each other.
        """
        ends = Instant(now.ns + int(window.total_seconds()) * NANOS)
        waits: list[float] = []
        try:
            with writing(self._engine) as db:
                db.execute(sa.delete(rows).where(rows.c.ends <= now))
                for key in sorted(limits):
                    new = insert_new(db, rows).values(key=key, ends=ends, count=1)
                    more = new.on_conflict_do_update(
                        index_elements=["key"], set_={"count": rows.c.count + 1}
                    )
                    row = db.execute(more.returning(rows.c.count, rows.c.ends)).one()
                    if row.count > limits[key]:
                        waits.append((row.ends.ns - now.ns) / NANOS)
                if waits:
                    raise _Full
        except _Full:
            return max(waits)
        return None

    def forgive(self, own: bytes, shared: bytes) -> None:
        """What was counted for `own` counts no more, for `shared` neither."""
        with writing(self._engine) as db:
            gone = sa.delete(rows).where(rows.c.key == own).returning(rows.c.count)
            count = db.execute(gone).scalar_one_or_none()
            if count is not None:
                less = sa.case((rows.c.count > count, rows.c.count - count), else_=0)
                db.execute(sa.update(rows).where(rows.c.key == shared).values(count=less))

    def kept(self) -> int:
        """How many keys are counted for."""
        with reading(self._engine) as db:
            return int(db.execute(sa.select(sa.func.count()).select_from(rows)).scalar_one())
