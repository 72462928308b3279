"""Failed logins, counted in time windows by all services that share a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from odf_protocol.instant import NANOS, Instant

from ..sql.attempt_tables import login_attempts as rows
from ..sql.engine import insert_new, reading, writing


class _Full(Exception):
    """Rolls back the transaction that exceeded a limit."""


class SqlAttempts:
    """Counters by key; a key's time window begins with its first failure."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def count(self, limits: Mapping[bytes, int], now: Instant, window: timedelta) -> float | None:
        """Increment the counter of every key and return None. If that exceeds a limit, change
        nothing and return the number of seconds to wait.

        Keys are processed in sorted order, so that two callers with the same keys wait for each
        other instead of deadlocking.
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

    def forgive(self, own: bytes, wider: Sequence[bytes]) -> None:
        """Delete the counter of `own`, and subtract its count from the `wider` counters."""
        with writing(self._engine) as db:
            gone = sa.delete(rows).where(rows.c.key == own).returning(rows.c.count)
            count = db.execute(gone).scalar_one_or_none()
            if count is not None:
                less = sa.case((rows.c.count > count, rows.c.count - count), else_=0)
                db.execute(sa.update(rows).where(rows.c.key.in_(wider)).values(count=less))

    def kept(self) -> int:
        """Return the number of keys that have a counter."""
        with reading(self._engine) as db:
            return int(db.execute(sa.select(sa.func.count()).select_from(rows)).scalar_one())
