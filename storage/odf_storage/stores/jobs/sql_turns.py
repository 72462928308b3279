"""Finds jobs in SQL that may start, in the order of turns.

Usually one query returns all of them. If more jobs wait than it reads, a second query finds the
parties with waiting jobs, and further ones read the oldest jobs of the parties whose turn it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ..ports.values import JobStatus
from ..sql.tables import accounts, datasets, jobs
from .turns import NOBODY, Candidate, Turns

LOOK_AHEAD = 16
WAITING, RUNNING = JobStatus.WAITING.value, JobStatus.RUNNING.value
NOW = sa.bindparam("now", type_=jobs.c.lease_until.type)
MOST = sa.bindparam("most", type_=sa.Integer)
KINDS: sa.BindParameter[Any] = sa.bindparam("kinds", expanding=True)
FREE = sa.or_(
    jobs.c.status == WAITING, sa.and_(jobs.c.status == RUNNING, jobs.c.lease_until <= NOW)
)


def _blocked() -> sa.ColumnElement[bool]:
    """Select jobs that are blocked: another job of the same lock runs or was submitted earlier.

    The index of open jobs is only used if the statement repeats the index's condition literally.
    """
    before, running = jobs.alias("before"), jobs.alias("running")
    is_running: sa.ColumnElement[str] = sa.literal_column("'running'")
    is_open: list[sa.ColumnElement[str]] = [sa.literal_column("'waiting'"), is_running]
    return sa.or_(
        sa.exists().where(
            before.c.lock == jobs.c.lock,
            before.c.status.in_(is_open),
            before.c.number < jobs.c.number,
        ),
        sa.exists().where(
            running.c.lock == jobs.c.lock,
            running.c.status.in_(is_open),
            running.c.status == is_running,
            running.c.number != jobs.c.number,
            running.c.lease_until > NOW,
        ),
    )


def _party() -> sa.ColumnElement[str]:
    """Select the party of a job: the account that requested it, else the owner of its dataset."""
    owner = (
        sa.select(accounts.c.id)
        .join(datasets, datasets.c.account_folded == accounts.c.name_folded)
        .where(datasets.c.id == jobs.c.dataset)
        .correlate(jobs)
        .scalar_subquery()
    )
    return sa.func.coalesce(jobs.c.account, owner, NOBODY)


BLOCKED = _blocked()
_PARTY = _party()
_WAITS = sa.and_(jobs.c.status == WAITING, jobs.c.kind.in_(KINDS), ~BLOCKED)
_WAITING = (
    sa.select(jobs, _PARTY.label("party"))
    .where(_WAITS)
    .order_by(jobs.c.number)
    .limit(MOST)
    .with_for_update(of=jobs, skip_locked=True)
)
_OF_PARTY = (
    sa.select(jobs.c.number)
    .where(_WAITS, sa.bindparam("party") == _PARTY)
    .order_by(jobs.c.number)
    .limit(MOST)
)
_WAITING_BY_PARTY = (
    sa.select(_PARTY.label("party"), sa.func.min(jobs.c.number).label("oldest"))
    .where(jobs.c.status == WAITING, jobs.c.kind.in_(KINDS))
    .group_by("party")
)
_BEGUN = sa.select(
    jobs.c.number, jobs.c.kind, jobs.c.lease_until, _PARTY.label("party"), BLOCKED.label("blocked")
).where(jobs.c.status == RUNNING, sa.or_(jobs.c.leader.is_(None), jobs.c.lease_until <= NOW))


@dataclass(frozen=True, slots=True)
class Startable:
    """Jobs that may start, at most one per lock, in the order of turns, and the rows read."""

    candidates: Sequence[Candidate]
    rows: Mapping[int, sa.RowMapping]


def startable(
    db: sa.Connection, kinds: Sequence[str], now: Instant, turns: Turns, *, most: int
) -> Startable:
    """Return jobs that may start, in the order of turns: `most`, or more if it found more."""
    look_ahead = max(most, LOOK_AHEAD)
    asked = {"kinds": kinds, "now": now, "most": look_ahead}
    running, begun = _begun(db, kinds, now)
    rows = db.execute(_WAITING, asked).mappings().all()
    found = [Candidate(row["number"], row["party"]) for row in rows]
    if len(rows) == look_ahead:
        oldest = {row.party: row.oldest for row in db.execute(_WAITING_BY_PARTY, asked)}
        if len(oldest) > 1:
            parties = turns.parties_in_order(oldest, running)
            found = _of_parties(db, parties, {**asked, "most": most})
    ordered = turns.in_order([*found, *begun], running, now)
    return Startable(ordered, {row["number"]: row for row in rows})


def _begun(
    db: sa.Connection, kinds: Sequence[str], now: Instant
) -> tuple[Mapping[str, int], list[Candidate]]:
    """Return the number of running jobs by party, and the jobs that may be started again."""
    running, again = Counter[str](), []
    for row in db.execute(_BEGUN, {"now": now}):
        if row.lease_until is not None and row.lease_until > now:
            running[row.party] += 1
        elif row.kind in kinds and not row.blocked:
            again.append(Candidate(row.number, row.party, row.lease_until))
    return running, again


def _of_parties(
    db: sa.Connection, parties: Sequence[str], asked: Mapping[str, Any]
) -> list[Candidate]:
    """Return the oldest jobs of the next parties, until `most` parties have a job."""
    found: list[Candidate] = []
    for party in parties:
        if len({each.party for each in found}) >= asked["most"]:
            break
        numbers = db.execute(_OF_PARTY, {**asked, "party": party}).scalars()
        found += [Candidate(number, party) for number in numbers]
    return found
