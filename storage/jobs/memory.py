"""Job queue in memory: for tests and for a worker in the same process."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from protocol.identity import DatasetId
from protocol.instant import Instant

from ..bells.port import Bell, MemoryBell, Topic
from ..clock import Clock, system_clock
from ..errors import JobNotFound, LeaseLost, RequestKeyReused
from ..values import (
    Backlog,
    Job,
    JobEnd,
    JobId,
    JobOutcome,
    JobSpec,
    JobStatus,
    RequestKey,
    Submitted,
    Succeeded,
)
from .outcomes import told
from .turns import ALONE_AFTER, NOBODY, Candidate, Turns

_OPEN = (JobStatus.WAITING, JobStatus.RUNNING)


def job_id(number: int, tag: str) -> JobId:
    """Sorts by number; the random tag keeps ids from being guessed."""
    return JobId(f"{number:012x}-{tag}")


def after_lease(now: Instant, lease: timedelta) -> Instant:
    return Instant(now.ns + int(lease / timedelta(microseconds=1)) * 1000)


def go_together(*jobs: tuple[str, bytes | None]) -> bool:
    """Whether jobs of several locks, told by kind and body, are claimed together: of one kind, all
    small."""
    return len({kind for kind, _ in jobs}) == 1 and all(body is not None for _, body in jobs)


class MemoryJobQueue:
    """`JobQueue` in memory."""

    def __init__(self, *, clock: Clock = system_clock, bell: Bell | None = None) -> None:
        self._jobs: dict[JobId, Job] = {}
        self._rejected: dict[JobId, bytes] = {}
        self._requests: dict[tuple[object, ...], tuple[RequestKey, JobId]] = {}
        self._count = 0
        self._lock = threading.RLock()
        self._clock = clock
        self._turns = Turns()
        self._bell = bell or MemoryBell()

    def submit(self, spec: JobSpec) -> JobId:
        with self._lock:
            known = self._waiting_like(spec)
            if known is not None:
                return known
            self._count += 1
            new = job_id(self._count, secrets.token_hex(8))
            self._jobs[new] = Job(new, spec, JobStatus.WAITING, self._clock(), attempt=0)
        self._bell.ring(Topic.WORK)
        return new

    def submit_request(self, spec: JobSpec, request: RequestKey) -> Submitted:
        with self._lock:
            if (job := self.repeated(request)) is not None:
                return Submitted(job, repeated=True)
            new = self.submit(spec)
            self._requests[_name(request)] = (request, new)
            return Submitted(new, repeated=False)

    def submit_all(self, specs: Sequence[JobSpec]) -> Sequence[JobId]:
        return [self.submit(spec) for spec in specs]

    def repeated(self, request: RequestKey) -> JobId | None:
        with self._lock:
            before, job = self._requests.get(_name(request), (request, None))
            if job is None or before.expires_at <= self._clock():
                return None
            if before.fingerprint != request.fingerprint:
                raise RequestKeyReused(request.key)
            return job if self._jobs[job].status in (*_OPEN, JobStatus.SUCCEEDED) else None

    def _waiting_like(self, spec: JobSpec) -> JobId | None:
        """The job that waits under the same `dedup_key`."""
        for waiting in self._where(lambda job: job.status is JobStatus.WAITING):
            if spec.dedup_key is not None and waiting.spec.dedup_key == spec.dedup_key:
                return waiting.id
        return None

    def claim(self, worker: str, kinds: Iterable[str], *, lease: timedelta) -> Job | None:
        claimed = self.claim_groups(worker, kinds, lease=lease)
        return claimed[0][0] if claimed else None

    def claim_groups(
        self,
        worker: str,
        kinds: Iterable[str],
        *,
        lease: timedelta,
        together: Mapping[str, int] | None = None,
        groups: int = 1,
    ) -> Sequence[Sequence[Job]]:
        wanted = set(kinds)
        with self._lock:
            now = self._clock()
            free = self._by_turn(wanted, now)[:groups]
            if not free:
                return []
            most = (together or {}).get(free[0].spec.kind, 1)
            most = 1 if _is_alone(free[0]) else most
            leaders = [
                job
                for job in free[1:]
                if most > 1 and go_together(_sort(free[0]), _sort(job)) and not _is_alone(job)
            ]
            self._turns.took({_party(job) for job in (free[0], *leaders)})
            found = [
                [job, *self._following(job, most, now, small=bool(leaders))]
                for job in (free[0], *leaders)
            ]
            until = after_lease(now, lease)
            return [[self._claim(job, worker, until) for job in group] for group in found]

    def _by_turn(self, wanted: Collection[str], now: Instant) -> list[Job]:
        """The jobs that may start, one a lock."""
        candidates = {
            number: job
            for number, job in enumerate(self._jobs.values())
            if job.spec.kind in wanted and _is_free(job, now) and not self._is_locked(job, now)
        }
        running = Counter(
            _party(job)
            for job in self._where(lambda job: job.status is JobStatus.RUNNING)
            if not _is_free(job, now)
        )
        turns = self._turns.in_order(
            [Candidate(number, _party(job), job.lease_until) for number, job in candidates.items()],
            running,
            now,
        )
        return [candidates[each.number] for each in turns]

    def _claim(self, job: Job, worker: str, until: Instant) -> Job:
        claimed = replace(
            job,
            status=JobStatus.RUNNING,
            worker=worker,
            attempt=job.attempt + 1,
            deaths=_deaths(job),
            lease_until=until,
        )
        self._jobs[job.id] = claimed
        return claimed

    def _following(self, first: Job, most: int, now: Instant, *, small: bool) -> list[Job]:
        """Jobs of the same lock and kind right behind the first; none after one of another kind,
        or one that is not `small`."""
        found: list[Job] = []
        if first.spec.lock is None:
            return found
        for job in self._where(lambda job: job.spec.lock == first.spec.lock and job.id > first.id):
            if not _is_free(job, now):
                continue
            fits = (
                go_together(_sort(first), _sort(job)) if small else job.spec.kind == first.spec.kind
            )
            if not fits or len(found) + 1 >= most or _is_alone(job):
                break
            found.append(job)
        return found

    def extend(
        self,
        job: JobId,
        worker: str,
        *,
        lease: timedelta,
        progress: dict[str, Any] | None = None,
    ) -> None:
        with self._lock:
            held = self._held(job, worker)
            until = after_lease(self._clock(), lease)
            told = held.progress if progress is None else progress
            self._jobs[job] = replace(held, lease_until=until, progress=told)
        if progress is not None:
            self._bell.ring(Topic.ENDED)

    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None:
        self.end_all([JobEnd(job, worker, outcome)])

    def end_all(self, ends: Sequence[JobEnd], then: Callable[[], None] = lambda: None) -> None:
        """All of the jobs end, and something else happens, or nothing does."""
        with self._lock:
            held = [self._held(end.job, end.worker) for end in ends]
            then()
            for job, end in zip(held, ends, strict=True):
                succeeded = isinstance(end.outcome, Succeeded)
                self._end(job, JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED, end.outcome)
        if ends:
            self._ring_end()

    def put_back(self, job: JobId, worker: str, *, pause: timedelta | None = None) -> None:
        with self._lock:
            held = self._held(job, worker)
            rests = after_lease(self._clock(), pause or timedelta())
            held = replace(held, worker=None, lease_until=rests)
            if pause is None:
                waits = held.spec.dedup_key is None  # else another job may wait under its key
                status = JobStatus.WAITING if waits else JobStatus.RUNNING
                held = replace(held, attempt=held.attempt - 1, status=status)
            if held.status is JobStatus.WAITING:
                held = replace(held, lease_until=None)
            self._jobs[job] = held
        self._bell.ring(Topic.WORK)

    def cancel(self, job: JobId) -> None:
        with self._lock:
            current = self._get(job)
            if current.status in _OPEN:
                self._end(current, JobStatus.CANCELLED, None)
        self._ring_end()

    def _end(self, job: Job, status: JobStatus, outcome: JobOutcome | None) -> None:
        if isinstance(outcome, Succeeded) and outcome.rejected is not None:
            self._rejected[job.id] = outcome.rejected
            outcome = replace(outcome, rejected=None)
        self._jobs[job.id] = replace(
            job,
            spec=replace(job.spec, body=None),
            status=status,
            finished_at=self._clock(),
            lease_until=None,
            outcome=None if outcome is None else told(outcome),
        )

    def _ring_end(self) -> None:
        self._bell.ring(Topic.ENDED)
        self._bell.ring(Topic.WORK)

    def get(self, job: JobId) -> Job:
        with self._lock:
            return self._get(job)

    def rejected(self, job: JobId) -> bytes | None:
        with self._lock:
            return self._rejected.get(job)

    def get_all(self, wanted: Collection[JobId], *, ended: bool = False) -> Mapping[JobId, Job]:
        with self._lock:
            known = {job: self._jobs[job] for job in wanted if job in self._jobs}
        return {id_: job for id_, job in known.items() if not ended or job.finished_at is not None}

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        after: str | None = None,
        limit: int = 100,
        statuses: Collection[JobStatus] | None = None,
        kinds: Collection[str] | None = None,
        schedule: str | None = None,
        newest_first: bool = False,
    ) -> Sequence[Job]:
        with self._lock:
            found = self._where(
                lambda job: (
                    (dataset is None or job.spec.dataset == dataset)
                    and (after is None or (job.id < after if newest_first else job.id > after))
                    and (statuses is None or job.status in statuses)
                    and (kinds is None or job.spec.kind in kinds)
                    and (schedule is None or job.spec.schedule == schedule)
                )
            )
        return (found[::-1] if newest_first else found)[:limit]

    def backlog(self) -> Backlog:
        with self._lock:
            waiting = self._where(lambda job: job.status is JobStatus.WAITING)
        return Backlog(
            len(waiting),
            dict(Counter(job.spec.dataset for job in waiting if job.spec.dataset is not None)),
            dict(Counter(job.spec.account for job in waiting if job.spec.account is not None)),
        )

    def prune(self, *, before: Instant, rejected_before: Instant | None = None) -> int:
        with self._lock:
            if rejected_before is not None:
                old_rows = self._ended_before(rejected_before)
                self._rejected = {
                    job: rows for job, rows in self._rejected.items() if job not in old_rows
                }
            now = self._clock()
            self._requests = {
                name: known for name, known in self._requests.items() if known[0].expires_at > now
            }
            needed = {job for _, job in self._requests.values()}
            old = self._ended_before(before) - needed
            for job in old:
                del self._jobs[job]
                self._rejected.pop(job, None)
            return len(old)

    def _ended_before(self, when: Instant) -> set[JobId]:
        ended = self._where(lambda job: job.finished_at is not None and job.finished_at < when)
        return {job.id for job in ended}

    def _where(self, condition: Callable[[Job], bool]) -> list[Job]:
        return [job for job in self._jobs.values() if condition(job)]

    def _get(self, job: JobId) -> Job:
        if job not in self._jobs:
            raise JobNotFound(job)
        return self._jobs[job]

    def _held(self, job: JobId, worker: str) -> Job:
        current = self._get(job)
        if current.status is not JobStatus.RUNNING or current.worker != worker:
            raise LeaseLost(job, worker)
        return current

    def _is_locked(self, job: Job, now: Instant) -> bool:
        """Whether another job of the same lock runs, or is its turn before this one's."""
        if job.spec.lock is None:
            return False
        return any(
            (other.status is JobStatus.RUNNING and not _is_free(other, now))
            or (other.status in _OPEN and other.id < job.id)
            for other in self._jobs.values()
            if other.id != job.id and other.spec.lock == job.spec.lock
        )


def _name(request: RequestKey) -> tuple[object, ...]:
    return request.dataset, request.account, request.key


def _sort(job: Job) -> tuple[str, bytes | None]:
    return job.spec.kind, job.spec.body


def _party(job: Job) -> str:
    return job.spec.account or NOBODY


def _deaths(job: Job) -> int:
    """How many workers ended with the job in hand, if it is claimed now."""
    return job.deaths + (job.status is JobStatus.RUNNING and job.worker is not None)


def _is_alone(job: Job) -> bool:
    return _deaths(job) >= ALONE_AFTER


def _is_free(job: Job, now: Instant) -> bool:
    if job.status is JobStatus.WAITING:
        return True
    expired = job.lease_until is not None and job.lease_until <= now
    return job.status is JobStatus.RUNNING and expired
