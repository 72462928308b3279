"""Claiming in SQL: the oldest job that may start, what may be run with it, in one transaction.

Rows other workers are claiming are skipped (PostgreSQL), or nobody else writes (SQLite). Who
lost a lock to another worker meanwhile is told by the index that lets one lead per lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from protocol.instant import Instant

from ..sql.tables import jobs
from ..values import Job, JobStatus
from .memory import after_lease, go_together
from .sql_rows import OPEN, job_of

READ_AHEAD = 4
"""Jobs behind the leaders are read for so many full groups at most, whatever waits."""
_WAITING, _RUNNING = JobStatus.WAITING.value, JobStatus.RUNNING.value
_now = sa.bindparam("now", type_=jobs.c.lease_until.type)
_most = sa.bindparam("most", type_=sa.Integer)
_free = sa.or_(
    jobs.c.status == _WAITING, sa.and_(jobs.c.status == _RUNNING, jobs.c.lease_until <= _now)
)


def _next_free() -> sa.Select[Any]:
    """The oldest jobs that may start, one a lock: waiting or expired, and the lock is free."""
    other = jobs.alias("other")
    blocked = sa.exists().where(
        other.c.lock == jobs.c.lock,
        other.c.number != jobs.c.number,
        sa.or_(
            sa.and_(other.c.status == _RUNNING, other.c.lease_until > _now),
            sa.and_(other.c.status.in_(OPEN), other.c.number < jobs.c.number),
        ),
    )
    return (
        sa.select(jobs)
        .where(jobs.c.kind.in_(sa.bindparam("kinds", expanding=True)), _free, ~blocked)
        .order_by(jobs.c.number)
        .limit(_most)
        .with_for_update(skip_locked=True)
    )


_NEXT_FREE = _next_free()
_BEHIND = (
    sa.select(jobs)
    .where(
        jobs.c.lock.in_(sa.bindparam("locks", expanding=True)),
        jobs.c.number > sa.bindparam("first"),
        _free,
    )
    .order_by(jobs.c.number)
    .limit(_most)
    .with_for_update()
)
_HOLD = (
    sa.update(jobs)
    .where(jobs.c.number == sa.bindparam("its_number"))
    .values(
        status=_RUNNING,
        worker=sa.bindparam("its_worker"),
        attempt=jobs.c.attempt + 1,
        lease_until=sa.bindparam("until"),
        leader=sa.bindparam("its_leader"),
    )
)
_Row = sa.RowMapping


def claim_rows(
    db: sa.Connection,
    worker: str,
    kinds: Sequence[str],
    now: Instant,
    *,
    lease: timedelta,
    together: Mapping[str, int],
    groups: int,
) -> list[list[Job]]:
    """Groups of jobs that are this worker's from now on. `IntegrityError`: a race was lost."""
    asked = {"kinds": kinds, "now": now, "most": groups}
    first = list(db.execute(_NEXT_FREE, asked).mappings())
    if not first:
        return []
    most = together.get(first[0]["kind"], 1)
    leaders = [
        first[0],
        *(row for row in first[1:] if most > 1 and go_together(_sort(first[0]), _sort(row))),
    ]
    claimed = [[row] for row in leaders]
    if most > 1:
        _add_followers(db, claimed, most, now)
    until = after_lease(now, lease)
    held = [
        {
            "its_number": row["number"],
            "its_worker": worker,
            "until": until,
            "its_leader": None if row is group[0] else group[0]["number"],
        }
        for group in claimed
        for row in group
    ]
    db.execute(_HOLD, held)
    return [[_held(row, worker, until) for row in group] for group in claimed]


def _sort(row: _Row) -> tuple[str, bytes | None]:
    return row["kind"], row["body"]


def _add_followers(db: sa.Connection, claimed: list[list[_Row]], most: int, now: Instant) -> None:
    """Jobs of the same lock and kind right behind the first; none after one of another kind."""
    open_groups = {group[0]["lock"]: group for group in claimed if group[0]["lock"] is not None}
    several = len(claimed) > 1
    asked = {
        "locks": list(open_groups),
        "first": min(group[0]["number"] for group in claimed),
        "now": now,
        "most": (most - 1) * (READ_AHEAD if several else 1),
    }
    for row in db.execute(_BEHIND, asked).mappings() if open_groups else ():
        group = open_groups.get(row["lock"])
        if group is None or row["number"] <= group[0]["number"]:
            continue
        fits = (
            go_together(_sort(group[0]), _sort(row)) if several else row["kind"] == group[0]["kind"]
        )
        if not fits or len(group) >= most:
            del open_groups[row["lock"]]
        else:
            group.append(row)


def _held(row: _Row, worker: str, until: Instant) -> Job:
    change = {"status": _RUNNING, "worker": worker, "lease_until": until}
    return job_of({**row, **change, "attempt": row["attempt"] + 1})
