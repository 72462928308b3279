"""Job queue in a SQL database; two partial unique indexes enforce its promises.

At most one job waits per `dedup_key`, and at most one leader runs per `lock`: the database
rejects a second one. Leases use the clock that all programs of the node share (`sql/clock.py`);
ends that a clock ahead of it has set are brought forward.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant

from ...runtime.clock import Clock, system_clock
from ..ports.values import (
    AccountId,
    Backlog,
    Failing,
    Job,
    JobEnd,
    JobId,
    JobOutcome,
    JobSpec,
    JobStatus,
    RequestKey,
    Submitted,
)
from ..sql.engine import reading, writing
from ..sql.publishing import rejected_rows, request_keys
from ..sql.tables import jobs
from ..wakeups.wakeups import MemoryWakeUp, Topic, WakeUp
from .sql_claim import AccountRotation, RaceLost, after_lease, claim_rows, shorten_leases
from .sql_rows import (
    OPEN,
    SHOWN,
    cancelled_at,
    change_leased,
    end_jobs,
    get_job,
    is_job,
    job_id,
    job_of,
    parse_id,
)
from .sql_submit import Submitter, repeated_job

CLAIM_TRIES = 20
"""Number of lost races against other workers after which a claim returns nothing."""
LOOK_S = 60
"""Seconds between looks for leases of a clock that was ahead."""
_ALL = sa.select(*SHOWN).where(jobs.c.number.in_(sa.bindparam("numbers", expanding=True)))
_ENDED = _ALL.where(jobs.c.status.not_in(OPEN))


class JobQueue:
    """Work to do later: at least once, and one job at a time per lock.

    New work and ends of jobs wake waiting processes. `submit` returns the waiting job with the
    same `dedup_key` if there is one. Unknown jobs raise `JobNotFound`.

    A job whose lease has expired can be claimed again. Once another worker has claimed it, or it
    was cancelled or finished, `extend` and `finish` of the late worker raise `LeaseLost`. Jobs
    with the same lock start in the order of their submission. Among different locks, accounts
    take turns, and jobs that were started before are last.
    """

    def __init__(
        self, engine: sa.Engine, *, clock: Clock = system_clock, wake_up: WakeUp | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._wake_up = wake_up or MemoryWakeUp()
        self._turns = AccountRotation()
        self._submitter = Submitter(engine, clock, self._wake_up)
        self._looked: Instant | None = None
        """When leases of a clock that was ahead were looked for."""

    def submit(self, spec: JobSpec) -> JobId:
        return self._submitter.submit(spec)

    def submit_all(
        self, asked: Sequence[tuple[JobSpec, RequestKey | None]]
    ) -> Sequence[Submitted | NodeError]:
        """Submit each job in one transaction. Return a job or an error for each request.

        A repeated request gets its earlier job, unless that job failed or was cancelled, or the
        key has expired. Errors: `RequestKeyReused` if the fingerprint under the key differs,
        `DatasetNotFound` if the dataset was forgotten meanwhile.
        """
        return self._submitter.submit_all(asked)

    def repeated(self, request: RequestKey) -> JobId | None:
        """Return the job that `submit_all` would return for a repeated request, or None."""
        with reading(self._engine) as db:
            return repeated_job(db, request, self._clock())

    def claim(self, worker: str, kinds: Iterable[str], *, lease: timedelta) -> Job | None:
        claimed = self.claim_groups(worker, kinds, lease=lease)
        return claimed[0][0] if claimed else None

    def claim_groups(
        self,
        worker: str,
        kinds: Iterable[str],
        *,
        lease: timedelta,
        group_sizes: Mapping[str, int] | None = None,
        groups: int = 1,
    ) -> Sequence[Sequence[Job]]:
        """Claim a job as `claim` does, with the jobs of its lock and kind that directly follow it.

        `group_sizes` limits the size of a group by kind; the default is one job. Each job has its
        own lease and end. Up to `groups` groups with different locks are returned if all their
        jobs have the kind of the first job and have a body; otherwise only the first group.
        """
        wanted = sorted(set(kinds))
        for _ in range(CLAIM_TRIES):
            try:
                with writing(self._engine) as db:
                    now = self._clock()
                    self._shorten_leases(db, now, lease)
                    return claim_rows(
                        db,
                        worker,
                        wanted,
                        now,
                        self._turns,
                        lease=lease,
                        group_sizes=group_sizes or {},
                        groups=groups,
                    )
            except (RaceLost, sa.exc.IntegrityError):  # another worker has taken the lock
                continue
        return []

    def _shorten_leases(self, db: sa.Connection, now: Instant, lease: timedelta) -> None:
        """Shorten leases of a clock that was ahead, once in a while: claims are many."""
        if self._looked is None or not 0 <= now.ns - self._looked.ns < LOOK_S * NANOS:
            shorten_leases(db, now, lease)
            self._looked = now

    def extend(
        self,
        job: JobId,
        worker: str,
        *,
        lease: timedelta,
        progress: dict[str, Any] | None = None,
    ) -> None:
        until = after_lease(self._clock(), lease)
        changes = {} if progress is None else {"progress": progress}
        with writing(self._engine) as db:
            change_leased(db, job, worker, lease_until=until, **changes)
            if changes:
                self._wake_up.announce(db, Topic.ENDED)
        if changes:
            self._wake_up.send(Topic.ENDED)

    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None:
        with writing(self._engine) as db:
            end_jobs(db, [JobEnd(job, worker, outcome)], self._clock())
            self._announce_end(db)
        self._ring_end()

    def put_back(self, job: JobId, worker: str, *, pause: timedelta | None = None) -> None:
        """Return a claimed job to the queue; any worker may claim it after the pause. Without a
        pause it waits as before, and this claim is not counted. Raises `LeaseLost`."""
        rests = after_lease(self._clock(), pause or timedelta())
        change: dict[str, Any] = {"lease_until": rests, "worker": None}
        if pause is None:
            alone = jobs.c.dedup_key.is_(None)  # otherwise another job may wait under the key
            change["attempt"] = jobs.c.attempt - 1
            change["status"] = sa.case(
                (alone, JobStatus.WAITING.value), else_=JobStatus.RUNNING.value
            )
        with writing(self._engine) as db:
            change_leased(db, job, worker, **change)
            self._wake_up.announce(db, Topic.WORK)
        self._wake_up.send(Topic.WORK)

    def cancel(self, job: JobId) -> None:
        change = (
            sa.update(jobs)
            .where(is_job(job), jobs.c.status.in_(OPEN))
            .values(**cancelled_at(self._clock()))
        )
        with writing(self._engine) as db:
            if db.execute(change).rowcount == 0:
                get_job(db, job)
            self._announce_end(db)
        self._ring_end()

    def get(self, job: JobId) -> Job:
        with reading(self._engine) as db:
            return get_job(db, job)

    def rejected(self, job: JobId) -> bytes | None:
        """Return the rows that the job rejected (see `Succeeded`), or None if they are deleted."""
        query = sa.select(rejected_rows.c.content).join(jobs).where(is_job(job))
        with reading(self._engine) as db:
            content = db.execute(query).scalar_one_or_none()
        return None if content is None else bytes(content)

    def get_all(self, wanted: Collection[JobId], *, ended: bool = False) -> Mapping[JobId, Job]:
        """Return those of the jobs that exist; with `ended`, only those that have ended."""
        if not wanted:
            return {}
        numbers = [parse_id(job)[0] for job in wanted]
        query = _ENDED if ended else _ALL
        with reading(self._engine) as db:
            rows = db.execute(query, {"numbers": numbers}).mappings()
            found = [job_of(row) for row in rows]
        return {job.id: job for job in found if job.id in wanted}

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        account: AccountId | None = None,
        after: str | None = None,
        limit: int = 100,
        statuses: Collection[JobStatus] | None = None,
        kinds: Collection[str] | None = None,
        schedule: str | None = None,
        newest_first: bool = False,
    ) -> Sequence[Job]:
        """Return matching jobs in the order of their submission, or in reverse order."""
        number = jobs.c.number
        query = sa.select(*SHOWN).order_by(number.desc() if newest_first else number).limit(limit)
        if dataset is not None:
            query = query.where(jobs.c.dataset == dataset)
        if account is not None:
            query = query.where(jobs.c.account == account)
        if after is not None:
            at = parse_id(after)[0]
            query = query.where(number < at if newest_first else number > at)
        if statuses is not None:
            query = query.where(jobs.c.status.in_(sorted(statuses)))
        if kinds is not None:
            query = query.where(jobs.c.kind.in_(sorted(kinds)))
        if schedule is not None:
            query = query.where(jobs.c.schedule == schedule)
        with reading(self._engine) as db:
            return [job_of(row) for row in db.execute(query).mappings()]

    def backlog(self) -> Backlog:
        """Count the waiting jobs."""
        count = sa.func.count()
        query = (
            sa.select(jobs.c.dataset, jobs.c.account, count)
            .where(jobs.c.status == JobStatus.WAITING.value)
            .group_by(jobs.c.dataset, jobs.c.account)
        )
        backlog, total = Backlog(), 0
        with reading(self._engine) as db:
            for dataset, account, number in db.execute(query):
                total += number
                for key, counts in ((dataset, backlog.by_dataset), (account, backlog.by_account)):
                    if key is not None:
                        counts[key] = counts.get(key, 0) + number
        return Backlog(total, backlog.by_dataset, backlog.by_account)

    def failing(
        self, kind: str, *, limit: int, dataset: DatasetId | None = None
    ) -> Sequence[Failing]:
        """Return datasets whose last ended job of the kind failed, or `dataset` if it is one; those
        first that fail for the longest. Cancelled jobs do not count."""
        failed = (
            jobs.c.status == JobStatus.FAILED.value,
            jobs.c.kind == kind,
            jobs.c.dataset.is_not(None) if dataset is None else jobs.c.dataset == dataset,
        )
        succeeded = (
            sa.select(jobs.c.dataset, sa.func.max(jobs.c.number).label("number"))
            .where(
                jobs.c.status == JobStatus.SUCCEEDED.value,
                jobs.c.kind == kind,
                jobs.c.dataset.in_(sa.select(jobs.c.dataset).where(*failed)),
            )
            .group_by(jobs.c.dataset)
            .subquery()
        )
        count, first = sa.func.count(), sa.func.min(jobs.c.number)
        query = (
            sa.select(jobs.c.dataset, count, first.label("first"), sa.func.max(jobs.c.number))
            .join(succeeded, succeeded.c.dataset == jobs.c.dataset, isouter=True)
            .where(
                *failed,
                jobs.c.number > sa.func.coalesce(succeeded.c.number, 0),
            )
            .group_by(jobs.c.dataset)
            .order_by(first)
            .limit(limit)
        )
        with reading(self._engine) as db:
            found = db.execute(query).all()
            ends = {number for row in found for number in row[2:]}
            named = sa.select(jobs.c.number, jobs.c.tag, jobs.c.submitted_at)
            known = {row.number: row for row in db.execute(named.where(jobs.c.number.in_(ends)))}
        return [
            Failing(
                dataset=its,
                count=number,
                since=known[start].submitted_at,
                first=job_id(start, known[start].tag),
                last=job_id(end, known[end].tag),
            )
            for its, number, start, end in found
        ]

    def prune(self, *, before: Instant, rejected_before: Instant | None = None) -> int:
        """Delete jobs that ended before `before` and that no repeated request refers to; return
        their number. Delete also rejected rows that are older than `rejected_before`."""
        now = self._clock()
        known = sa.select(request_keys.c.job)
        old = sa.delete(jobs).where(
            jobs.c.status.not_in(OPEN),
            jobs.c.finished_at < before,
            jobs.c.number.not_in(known),
        )
        with writing(self._engine) as db:
            db.execute(sa.delete(request_keys).where(request_keys.c.expires_at <= now))
            if rejected_before is not None:
                db.execute(
                    sa.delete(rejected_rows).where(rejected_rows.c.kept_at < rejected_before)
                )
            return int(db.execute(old).rowcount)

    def _announce_end(self, db: sa.Connection) -> None:
        """Wake processes that wait for the end of a job, and workers that may start another."""
        self._wake_up.announce(db, Topic.ENDED)
        self._wake_up.announce(db, Topic.WORK)

    def _ring_end(self) -> None:
        self._wake_up.send(Topic.ENDED)
        self._wake_up.send(Topic.WORK)
