"""Job queue in a SQL database; two partial unique indexes keep its promises.

One waits per `dedup_key`, one runs per `lock`: the database refuses the second. Claiming is
one statement, which skips rows other workers are claiming (PostgreSQL) or holds the write
lock (SQLite). Leases go by the clocks of the workers, which have to agree within a fraction
of the lease.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from protocol.identity import DatasetId
from protocol.instant import Instant

from ..clock import Clock, system_clock
from ..errors import JobNotFound, LeaseLost
from ..sql.engine import insert_new, reading, storable, writing
from ..sql.tables import jobs
from ..values import Failed, Job, JobId, JobOutcome, JobSpec, JobStatus, Succeeded
from .memory import after_lease, job_id

CLAIM_TRIES = 20
"""Races lost against other workers before a claim comes back empty-handed."""
_OPEN = (JobStatus.WAITING.value, JobStatus.RUNNING.value)


class SqlJobQueue:
    """`JobQueue` in SQL."""

    def __init__(self, engine: sa.Engine, *, clock: Clock = system_clock) -> None:
        self._engine = engine
        self._clock = clock

    def submit(self, spec: JobSpec) -> JobId:
        row = _row_of(spec, self._clock())
        waiting = sa.select(jobs.c.number, jobs.c.tag).where(
            jobs.c.dedup_key == spec.dedup_key, jobs.c.status == JobStatus.WAITING.value
        )
        while True:  # the job that waited may be claimed between insert and look-up
            with writing(self._engine) as db:
                insert = insert_new(db, jobs).values(**row).on_conflict_do_nothing()
                found = db.execute(insert.returning(jobs.c.number, jobs.c.tag)).one_or_none()
                found = found or db.execute(waiting).one_or_none()
            if found is not None:
                return job_id(found.number, found.tag)

    def claim(self, worker: str, kinds: Iterable[str], *, lease: timedelta) -> Job | None:
        wanted = sorted(set(kinds))
        for _ in range(CLAIM_TRIES):
            now = self._clock()
            change = (
                sa.update(jobs)
                .where(jobs.c.number == _next_free(wanted, now))
                .values(
                    status=JobStatus.RUNNING.value,
                    worker=worker,
                    attempt=jobs.c.attempt + 1,
                    lease_until=after_lease(now, lease),
                )
                .returning(*jobs.c)
            )
            try:
                with writing(self._engine) as db:
                    row = db.execute(change).mappings().one_or_none()
                return None if row is None else _job_of(row)
            except sa.exc.IntegrityError:  # the lock went to another worker meanwhile
                continue
        return None

    def extend(self, job: JobId, worker: str, *, lease: timedelta) -> None:
        self._change_held(job, worker, lease_until=after_lease(self._clock(), lease))

    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None:
        succeeded = isinstance(outcome, Succeeded)
        self._change_held(
            job,
            worker,
            status=(JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED).value,
            finished_at=self._clock(),
            lease_until=None,
            outcome=_outcome_to_json(outcome),
        )

    def cancel(self, job: JobId) -> None:
        change = (
            sa.update(jobs)
            .where(_is(job), jobs.c.status.in_(_OPEN))
            .values(status=JobStatus.CANCELLED.value, finished_at=self._clock(), lease_until=None)
        )
        with writing(self._engine) as db:
            if db.execute(change).rowcount == 0:
                _get(db, job)

    def get(self, job: JobId) -> Job:
        with reading(self._engine) as db:
            return _get(db, job)

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        after: str | None = None,
        limit: int = 100,
        statuses: Collection[JobStatus] | None = None,
    ) -> Sequence[Job]:
        query = sa.select(jobs).order_by(jobs.c.number).limit(limit)
        if dataset is not None:
            query = query.where(jobs.c.dataset == dataset)
        if after is not None:
            query = query.where(jobs.c.number > _parse(after)[0])
        if statuses is not None:
            query = query.where(jobs.c.status.in_(sorted(statuses)))
        with reading(self._engine) as db:
            return [_job_of(row) for row in db.execute(query).mappings()]

    def _change_held(self, job: JobId, worker: str, **values: Any) -> None:
        held = (_is(job), jobs.c.worker == worker, jobs.c.status == JobStatus.RUNNING.value)
        with writing(self._engine) as db:
            if db.execute(sa.update(jobs).where(*held).values(**values)).rowcount == 0:
                _get(db, job)
                raise LeaseLost(job, worker)


def _next_free(kinds: Sequence[str], now: Instant) -> sa.ScalarSelect[int]:
    """Number of the oldest job that may start: waiting or expired, and its lock is free."""
    other = jobs.alias("other")
    blocked = sa.exists().where(
        other.c.lock == jobs.c.lock,
        other.c.number != jobs.c.number,
        sa.or_(
            other.c.status == JobStatus.RUNNING.value,
            sa.and_(other.c.status == JobStatus.WAITING.value, other.c.number < jobs.c.number),
        ),
    )
    expired = sa.and_(jobs.c.status == JobStatus.RUNNING.value, jobs.c.lease_until <= now)
    free = sa.or_(jobs.c.status == JobStatus.WAITING.value, expired)
    return (
        sa.select(jobs.c.number)
        .where(jobs.c.kind.in_(kinds), free, ~blocked)
        .order_by(jobs.c.number)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )


def _parse(job: str) -> tuple[int, str]:
    """Number and tag of a job id; for anything else those of no job."""
    number, _, tag = job.partition("-")
    try:
        parsed = int(number, 16)
    except ValueError:
        return 0, ""
    return (parsed, tag) if parsed < 1 << 63 and storable(tag) else (0, "")


def _is(job: JobId) -> sa.ColumnElement[bool]:
    number, tag = _parse(job)
    return sa.and_(jobs.c.number == number, jobs.c.tag == tag)


def _get(db: sa.Connection, job: JobId) -> Job:
    row = db.execute(sa.select(jobs).where(_is(job))).mappings().one_or_none()
    if row is None:
        raise JobNotFound(job)
    return _job_of(row)


def _row_of(spec: JobSpec, now: Instant) -> dict[str, object]:
    return {
        "tag": secrets.token_hex(8),
        "kind": spec.kind,
        "dataset": spec.dataset,
        "payload": spec.payload,
        "lock": spec.lock,
        "dedup_key": spec.dedup_key,
        "status": JobStatus.WAITING.value,
        "submitted_at": now,
        "attempt": 0,
    }


def _job_of(row: sa.RowMapping) -> Job:
    names = ("kind", "dataset", "payload", "lock", "dedup_key")
    return Job(
        id=job_id(row["number"], row["tag"]),
        spec=JobSpec(**{name: row[name] for name in names}),
        status=JobStatus(row["status"]),
        submitted_at=row["submitted_at"],
        attempt=row["attempt"],
        worker=row["worker"],
        lease_until=row["lease_until"],
        finished_at=row["finished_at"],
        outcome=_outcome_of(row["outcome"]),
    )


def _outcome_to_json(outcome: JobOutcome) -> dict[str, Any]:
    if isinstance(outcome, Succeeded):
        return {"result": outcome.result}
    return {"error": outcome.error, "message": outcome.message, "facts": outcome.facts}


def _outcome_of(value: dict[str, Any] | None) -> JobOutcome | None:
    if value is None:
        return None
    return Succeeded(**value) if "result" in value else Failed(**value)
