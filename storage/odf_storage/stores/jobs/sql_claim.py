"""Claims jobs in SQL, in one transaction: the job whose turn it is, and jobs of its group.

On PostgreSQL, rows that other workers are claiming are skipped; on SQLite nobody else writes. If
two workers claim the same lock, the unique index (one leader per lock) makes one of them fail.

Decides which jobs of several locks a worker claims as one group.

Decides whose job is next. Accounts take turns, so that a busy account delays others by one job.

The account with the fewest running jobs is first, then the account whose last turn was longest
ago, then the oldest job. A job that was started before, and whose worker died or put it back,
lets the others go first for some time.

Finds jobs in SQL that may start, in the order of turns.

Usually one query returns all of them. If more jobs wait than it reads, a second query finds the
parties with waiting jobs, and further ones read the oldest jobs of the parties whose turn it is.

The end of a lease, which is the time until which a job belongs to its worker.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from odf_protocol.instant import Instant

from ..ports.values import Job, JobStatus
from ..sql.tables import accounts, datasets, jobs
from .sql_rows import job_of


def may_join(*jobs: tuple[str, bytes | None]) -> bool:
    """Return whether jobs of several locks, given as kind and body, are claimed together: they
    must have the same kind, and all must have a body."""
    return len({kind for kind, _ in jobs}) == 1 and all(body is not None for _, body in jobs)


NOBODY = ""
"""Party of jobs that have neither an account nor a dataset."""
GIVES_WAY_S = 300
"""Seconds after which a job that was started before has its turn like the others."""
ALONE_AFTER = 2
"""After this number of worker deaths a job runs alone, to find out which job of a group kills."""
MAX_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that may start. `rested` is the end of its lease, if it was started before."""

    number: int
    party: str
    rested: Instant | None = None

    def gives_way(self, now: Instant) -> bool:
        return self.rested is not None and now.ns < self.rested.ns + GIVES_WAY_S * 10**9


class AccountRotation:
    """Turns that this process remembers. A new instance starts with the oldest job."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._count = 0
        self._lock = threading.Lock()

    def in_order(
        self, candidates: Iterable[Candidate], running: Mapping[str, int], now: Instant
    ) -> list[Candidate]:
        """Return the candidates in the order of their turns."""
        started = Counter(running)
        ranked = []
        for each in sorted(candidates, key=lambda each: (each.gives_way(now), each.number)):
            key = (each.gives_way(now), started[each.party], self._last.get(each.party, 0))
            ranked.append((*key, each.number, each))
            started[each.party] += 1
        return [each[-1] for each in sorted(ranked, key=lambda row: row[:-1])]

    def parties_in_order(
        self, oldest: Mapping[str, int], running: Mapping[str, int]
    ) -> Sequence[str]:
        """Order parties by their turns; `oldest` is the number of each party's oldest job."""
        return sorted(
            oldest,
            key=lambda party: (running.get(party, 0), self._last.get(party, 0), oldest[party]),
        )

    def took(self, parties: Iterable[str]) -> None:
        """Record that these parties had their turn."""
        with self._lock:
            self._count += 1
            for party in parties:
                self._last.pop(party, None)
                self._last[party] = self._count
            while len(self._last) > MAX_KNOWN:
                del self._last[next(iter(self._last))]


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
    db: sa.Connection, kinds: Sequence[str], now: Instant, turns: AccountRotation, *, most: int
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


def after_lease(now: Instant, lease: timedelta) -> Instant:
    """Return `now` plus `lease`, in whole microseconds of the lease."""
    return Instant(now.ns + int(lease / timedelta(microseconds=1)) * 1000)


LONGEST_LEASE = timedelta(hours=1)
"""A lease that ends later than this, or than twice our own, was given by a clock that was ahead."""
_AHEAD = sa.and_(
    jobs.c.status == RUNNING, jobs.c.worker.is_not(None), jobs.c.lease_until > sa.bindparam("far")
)
_IS_AHEAD = sa.select(sa.exists().where(_AHEAD))
_SHORTEN = sa.update(jobs).where(_AHEAD).values(lease_until=sa.bindparam("until"))


def shorten_leases(db: sa.Connection, now: Instant, lease: timedelta) -> None:
    """Give leases of a clock that was ahead an end that comes: workers that live extend them."""
    far = {"far": after_lease(now, max(LONGEST_LEASE, 2 * lease))}
    if db.execute(_IS_AHEAD, far).scalar_one():
        db.execute(_SHORTEN, {**far, "until": after_lease(now, lease)})


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
    turns: AccountRotation,
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
