"""Job queue in memory: for tests and for a worker in the same process."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from protocol.identity import DatasetId
from protocol.instant import Instant

from ..clock import Clock, system_clock
from ..errors import JobNotFound, LeaseLost
from ..values import Job, JobId, JobOutcome, JobSpec, JobStatus, Succeeded


def job_id(number: int, tag: str) -> JobId:
    """Sorts by number; the random tag keeps ids from being guessed."""
    return JobId(f"{number:012x}-{tag}")


def after_lease(now: Instant, lease: timedelta) -> Instant:
    return Instant(now.ns + int(lease / timedelta(microseconds=1)) * 1000)


class MemoryJobQueue:
    """`JobQueue` in memory."""

    def __init__(self, *, clock: Clock = system_clock) -> None:
        self._jobs: dict[JobId, Job] = {}
        self._lock = threading.Lock()
        self._clock = clock

    def submit(self, spec: JobSpec) -> JobId:
        with self._lock:
            for job in self._where(lambda job: job.status is JobStatus.WAITING):
                if spec.dedup_key is not None and job.spec.dedup_key == spec.dedup_key:
                    return job.id
            new = job_id(len(self._jobs) + 1, secrets.token_hex(8))
            self._jobs[new] = Job(new, spec, JobStatus.WAITING, self._clock(), attempt=0)
            return new

    def claim(self, worker: str, kinds: Iterable[str], *, lease: timedelta) -> Job | None:
        wanted = set(kinds)
        with self._lock:
            now = self._clock()
            for job in self._jobs.values():
                if job.spec.kind in wanted and _is_free(job, now) and not self._is_locked(job):
                    claimed = replace(
                        job,
                        status=JobStatus.RUNNING,
                        worker=worker,
                        attempt=job.attempt + 1,
                        lease_until=after_lease(now, lease),
                    )
                    self._jobs[job.id] = claimed
                    return claimed
        return None

    def extend(self, job: JobId, worker: str, *, lease: timedelta) -> None:
        with self._lock:
            held = self._held(job, worker)
            self._jobs[job] = replace(held, lease_until=after_lease(self._clock(), lease))

    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None:
        succeeded = isinstance(outcome, Succeeded)
        with self._lock:
            self._jobs[job] = replace(
                self._held(job, worker),
                status=JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED,
                finished_at=self._clock(),
                lease_until=None,
                outcome=outcome,
            )

    def cancel(self, job: JobId) -> None:
        with self._lock:
            current = self._get(job)
            if current.status in (JobStatus.WAITING, JobStatus.RUNNING):
                self._jobs[job] = replace(
                    current,
                    status=JobStatus.CANCELLED,
                    finished_at=self._clock(),
                    lease_until=None,
                )

    def get(self, job: JobId) -> Job:
        with self._lock:
            return self._get(job)

    def page(
        self,
        *,
        dataset: DatasetId | None = None,
        after: str | None = None,
        limit: int = 100,
        statuses: Collection[JobStatus] | None = None,
    ) -> Sequence[Job]:
        with self._lock:
            return self._where(
                lambda job: (
                    (dataset is None or job.spec.dataset == dataset)
                    and (after is None or job.id > after)
                    and (statuses is None or job.status in statuses)
                )
            )[:limit]

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

    def _is_locked(self, job: Job) -> bool:
        """Whether another job of the same lock runs, or waits since before."""
        if job.spec.lock is None:
            return False
        return any(
            other.status is JobStatus.RUNNING
            or (other.status is JobStatus.WAITING and other.id < job.id)
            for other in self._jobs.values()
            if other.id != job.id and other.spec.lock == job.spec.lock
        )


def _is_free(job: Job, now: Instant) -> bool:
    if job.status is JobStatus.WAITING:
        return True
    expired = job.lease_until is not None and job.lease_until <= now
    return job.status is JobStatus.RUNNING and expired
