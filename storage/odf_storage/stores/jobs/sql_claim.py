"""Claims jobs in SQL, in one transaction: the job whose turn it is, and jobs of its group.

On PostgreSQL, rows that other workers are claiming are skipped; on SQLite nobody else writes. If
two workers claim the same lock, the unique index (one leader per lock) makes one of them fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ..ports.values import Job
from ..sql.tables import jobs
from .groups import may_join
from .leases import after_lease
from .sql_rows import job_of
from .sql_turns import BLOCKED, FREE, MOST, RUNNING, startable
from .turns import ALONE_AFTER, Candidate, Turns

READ_AHEAD = 4
"""Limit of jobs read to fill the groups, as a multiple of the jobs that follow in one group."""
_CHOSEN = (
    sa.select(jobs)
    .where(jobs.c.number.in_(sa.bindparam("numbers", expanding=True)), FREE, ~BLOCKED)
    .with_for_update(skip_locked=True)
)
_BEHIND = (
    sa.select(jobs)
    .where(
        jobs.c.lock.in_(sa.bindparam("locks", expanding=True)),
        jobs.c.number > sa.bindparam("first"),
        FREE,
    )
    .order_by(jobs.c.number)
    .limit(MOST)
    .with_for_update()
)
_HOLD = (
    sa.update(jobs)
    .where(jobs.c.number == sa.bindparam("its_number"))
    .values(
        status=RUNNING,
        worker=sa.bindparam("its_worker"),
        attempt=jobs.c.attempt + 1,
        deaths=sa.bindparam("its_deaths"),
        lease_until=sa.bindparam("until"),
        leader=sa.bindparam("its_leader"),
    )
)
_Row = sa.RowMapping


class RaceLost(Exception):
    """Another worker claimed the job first."""


def claim_rows(
    db: sa.Connection,
    worker: str,
    kinds: Sequence[str],
    now: Instant,
    turns: Turns,
    *,
    lease: timedelta,
    group_sizes: Mapping[str, int],
    groups: int,
) -> list[list[Job]]:
    """Claim jobs for the worker; return them in groups.

    Raises `RaceLost` or `IntegrityError` if another worker was first.
    """
    found = startable(db, kinds, now, turns, most=groups)
    if not found.candidates:
        return []
    chosen = found.candidates[:groups]
    leaders = _leaders(_rows(db, chosen, found.rows, now), group_sizes)
    most = group_sizes.get(leaders[0]["kind"], 1)
    claimed = [[row] for row in leaders]
    if most > 1 and not _is_alone(leaders[0]):
        _add_followers(db, claimed, most, now)
    until = after_lease(now, lease)
    leases = [
        {
            "its_number": row["number"],
            "its_worker": worker,
            "its_deaths": _deaths(row),
            "until": until,
            "its_leader": None if row is group[0] else group[0]["number"],
        }
        for group in claimed
        for row in group
    ]
    db.execute(_HOLD, leases)
    parties = {each.number: each.party for each in chosen}
    turns.took({parties[row["number"]] for row in leaders})
    return [[_leased(row, worker, until) for row in group] for group in claimed]


def _rows(
    db: sa.Connection, chosen: Sequence[Candidate], known: Mapping[int, _Row], now: Instant
) -> list[_Row]:
    """Return the rows of the jobs, locked until the transaction ends. Raises `RaceLost`."""
    missing = [each.number for each in chosen if each.number not in known]
    if missing:
        more = db.execute(_CHOSEN, {"numbers": missing, "now": now}).mappings()
        known = {**known, **{row["number"]: row for row in more}}
    rows = [known[each.number] for each in chosen if each.number in known]
    if not rows:
        raise RaceLost
    return rows


def _leaders(rows: Sequence[_Row], group_sizes: Mapping[str, int]) -> list[_Row]:
    """Return the first job, and those of the others that may be claimed together with it."""
    first, *others = rows
    if group_sizes.get(first["kind"], 1) <= 1 or _is_alone(first):
        return [first]
    return [
        first,
        *(
            row
            for row in others
            if may_join(_kind_and_body(first), _kind_and_body(row)) and not _is_alone(row)
        ),
    ]


def _kind_and_body(row: _Row) -> tuple[str, bytes | None]:
    return row["kind"], row["body"]


def _deaths(row: _Row) -> int:
    """Return the number of workers that died with the job, if it is claimed now."""
    died = row["status"] == RUNNING and row["worker"] is not None
    return (row["deaths"] or 0) + died


def _is_alone(row: _Row) -> bool:
    return _deaths(row) >= ALONE_AFTER


def _add_followers(db: sa.Connection, claimed: list[list[_Row]], most: int, now: Instant) -> None:
    """Append jobs of the lock and kind of each first job, up to the first job that does not fit."""
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
            may_join(_kind_and_body(group[0]), _kind_and_body(row))
            if several
            else row["kind"] == group[0]["kind"]
        )
        if not fits or len(group) >= most or _is_alone(row):
            del open_groups[row["lock"]]
        else:
            group.append(row)


def _leased(row: _Row, worker: str, until: Instant) -> Job:
    change = {"status": RUNNING, "worker": worker, "lease_until": until, "deaths": _deaths(row)}
    return job_of({**row, **change, "attempt": row["attempt"] + 1})
