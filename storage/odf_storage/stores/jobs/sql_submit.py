"""Submits jobs in SQL: concurrent callers share one transaction, and repeats get their job.

While a transaction is being synced to disk, further callers queue up; the next transaction writes
for all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from odf_protocol.errors import NodeError
from odf_protocol.instant import Instant

from ...runtime.clock import Clock
from ..ports.errors import DatasetNotFound, RequestKeyReused
from ..ports.values import JobId, JobSpec, JobStatus, RequestKey, Submitted
from ..sql.engine import insert_new, writing
from ..sql.publishing import request_keys
from ..sql.tables import jobs
from ..wakeups.wakeups import Topic, WakeUp
from .sql_rows import job_id, kept_key, row_of

MAX_TOGETHER = 256
_INSERT = sa.insert(jobs).returning(jobs.c.number, jobs.c.tag, sort_by_parameter_order=True)
_DEAD = (JobStatus.FAILED.value, JobStatus.CANCELLED.value)


@dataclass(slots=True, eq=False)
class _Waiting:
    spec: JobSpec
    request: RequestKey | None = None
    answer: Submitted | BaseException | None = None


class Submitter:
    """Combines concurrent submissions: one of the waiting threads writes for all."""

    def __init__(self, engine: sa.Engine, clock: Clock, wake_up: WakeUp) -> None:
        self._engine, self._clock, self._wake_up = engine, clock, wake_up
        self._writing = threading.Lock()
        self._queue: list[Sequence[_Waiting]] = []
        """Entries of the queue are calls; the jobs of one call are written in one transaction."""
        self._guard = threading.Lock()

    def submit(self, spec: JobSpec) -> JobId:
        """Submit one job. Raises the errors of the database."""
        (submitted,) = self.submit_all([(spec, None)])
        if not isinstance(submitted, Submitted):
            raise submitted
        return submitted.job

    def submit_all(
        self, asked: Sequence[tuple[JobSpec, RequestKey | None]]
    ) -> list[Submitted | NodeError]:
        """Submit all in one transaction; return for each request its job or an error."""
        return self._written([_Waiting(*each) for each in asked]) if asked else []

    def _written(self, mine: Sequence[_Waiting]) -> list[Submitted | NodeError]:
        with self._guard:
            self._queue.append(mine)
        while mine[0].answer is None:
            with self._writing:
                if mine[0].answer is None:
                    self._write(self._next())
        found: list[Submitted | NodeError] = []
        for each in mine:
            if not isinstance(each.answer, Submitted | RequestKeyReused | DatasetNotFound):
                raise each.answer or AssertionError("unreachable: all are answered at once")
            found.append(each.answer)
        return found

    def _next(self) -> list[_Waiting]:
        """Remove and return the first waiting calls, until they have `MAX_TOGETHER` jobs."""
        batch: list[_Waiting] = []
        with self._guard:
            while self._queue and len(batch) < MAX_TOGETHER:
                batch += self._queue.pop(0)
        return batch

    def _write(self, batch: Sequence[_Waiting]) -> None:
        answers: Sequence[Submitted | BaseException] = []
        try:
            with writing(self._engine) as db:
                answers = self._answers(db, batch)
                self._wake_up.announce(db, Topic.WORK)
        except BaseException as error:
            answers = [error] * len(batch)
        for each, answer in zip(batch, answers, strict=True):
            each.answer = answer
        self._wake_up.send(Topic.WORK)

    def _answers(
        self, db: sa.Connection, batch: Sequence[_Waiting]
    ) -> Sequence[Submitted | BaseException]:
        if all(each.request is None and each.spec.dedup_key is None for each in batch):
            now = self._clock()
            rows = [row_of(each.spec, now) for each in batch]
            numbered = db.execute(_INSERT, rows)
            return [Submitted(job_id(row.number, row.tag)) for row in numbered]
        return [self._answer(db, each) for each in batch]

    def _answer(self, db: sa.Connection, each: _Waiting) -> Submitted | BaseException:
        now = self._clock()
        if each.request is None:
            return Submitted(submit_plain(db, each.spec, now))
        try:
            return _request_job(db, each.spec, each.request, now)
        except (RequestKeyReused, DatasetNotFound) as refused:  # this request has written nothing
            return refused


def submit_plain(db: sa.Connection, spec: JobSpec, now: Instant) -> JobId:
    """Add a new job, or return the job that waits under the same `dedup_key`."""
    waiting = sa.select(jobs.c.number, jobs.c.tag).where(
        jobs.c.dedup_key == kept_key(spec.dedup_key), jobs.c.status == JobStatus.WAITING.value
    )
    insert = insert_new(db, jobs).values(**row_of(spec, now))
    if spec.dedup_key is not None:
        insert = insert.on_conflict_do_nothing()
    insert = insert.returning(jobs.c.number, jobs.c.tag)
    while True:  # a waiting job may be claimed between the insert and the lookup
        found = db.execute(insert).one_or_none() or db.execute(waiting).one_or_none()
        if found is not None:
            return job_id(found.number, found.tag)


def _request_job(db: sa.Connection, spec: JobSpec, request: RequestKey, now: Instant) -> Submitted:
    """As `_submit_request`, in a savepoint of its own. Raises also `DatasetNotFound`."""
    try:
        with db.begin_nested():
            return _submit_request(db, spec, request, now)
    except sa.exc.IntegrityError:  # the dataset was forgotten meanwhile
        raise DatasetNotFound(request.dataset) from None


def _submit_request(
    db: sa.Connection, spec: JobSpec, request: RequestKey, now: Instant
) -> Submitted:
    """Return the job of the first such request unless it failed; otherwise add a new job."""
    here = _is(request)
    values = {"fingerprint": request.fingerprint, "expires_at": request.expires_at}
    identity = {"dataset": request.dataset, "account": request.account, "key": request.key}
    new = insert_new(db, request_keys).values(**identity, **values, job=0)
    db.execute(new.on_conflict_do_nothing())
    db.execute(sa.select(request_keys.c.job).where(*here).with_for_update())
    if (before := repeated_job(db, request, now)) is not None:
        return Submitted(before, repeated=True)
    row = row_of(spec, now)
    number = db.execute(sa.insert(jobs).values(**row).returning(jobs.c.number)).scalar_one()
    db.execute(sa.update(request_keys).where(*here).values(**values, job=number))
    return Submitted(job_id(number, str(row["tag"])))


def repeated_job(db: sa.Connection, request: RequestKey, now: Instant) -> JobId | None:
    """Return the job of the first such request, unless there is none or it failed.

    Raises:
        RequestKeyReused: the key belongs to a different request.
    """
    query = (
        sa.select(request_keys.c.fingerprint, jobs.c.number, jobs.c.tag, jobs.c.status)
        .outerjoin(jobs, jobs.c.number == request_keys.c.job)
        .where(*_is(request), request_keys.c.job != 0, request_keys.c.expires_at > now)
    )
    known = db.execute(query).one_or_none()
    if known is None:
        return None
    if known.fingerprint != request.fingerprint:
        raise RequestKeyReused(request.key)
    if known.number is None or known.status in _DEAD:
        return None
    return job_id(known.number, known.tag)


def _is(request: RequestKey) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        request_keys.c.dataset == request.dataset,
        request_keys.c.account == request.account,
        request_keys.c.key == request.key,
    )
