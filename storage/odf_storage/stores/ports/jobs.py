"""Ports for the queue of jobs that workers run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from odf_protocol.errors import NodeError
from odf_protocol.identity import DatasetId
from odf_protocol.instant import Instant

from .values import (
    AccountId,
    Backlog,
    Failing,
    Job,
    JobId,
    JobOutcome,
    JobSpec,
    JobStatus,
    RequestKey,
    Submitted,
)


class JobSubmissions(Protocol):
    """The side of the queue that submits work.

    `submit` returns the waiting job with the same `dedup_key` if there is one. Unknown jobs raise
    `JobNotFound`.
    """

    def submit(self, spec: JobSpec) -> JobId: ...
    def submit_all(
        self, asked: Sequence[tuple[JobSpec, RequestKey | None]]
    ) -> Sequence[Submitted | NodeError]:
        """Submit each job in one transaction. Return a job or an error for each request.

        A repeated request gets its earlier job, unless that job failed or was cancelled, or the
        key has expired. Errors: `RequestKeyReused` if the fingerprint under the key differs,
        `DatasetNotFound` if the dataset was forgotten meanwhile.
        """

    def repeated(self, request: RequestKey) -> JobId | None:
        """Return the job that `submit_all` would return for a repeated request, or None."""

    def cancel(self, job: JobId) -> None: ...


class JobClaims(Protocol):
    """The side of the queue that workers use.

    A job whose lease has expired can be claimed again. Once another worker has claimed it, or it
    was cancelled or finished, `extend` and `finish` of the late worker raise `LeaseLost`. Jobs
    with the same lock start in the order of their submission. Among different locks, accounts
    take turns, and jobs that were started before are last.
    """

    def claim(self, worker: str, kinds: Iterable[str], *, lease: timedelta) -> Job | None: ...
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

    def extend(
        self, job: JobId, worker: str, *, lease: timedelta, progress: dict[str, Any] | None = None
    ) -> None: ...
    def put_back(self, job: JobId, worker: str, *, pause: timedelta | None = None) -> None:
        """Return a claimed job to the queue; any worker may claim it after the pause. Without a
        pause it waits as before, and this claim is not counted. Raises `LeaseLost`."""

    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None: ...


class JobRecords(Protocol):
    """The side of the queue that reads the state of jobs. Unknown jobs raise `JobNotFound`."""

    def get(self, job: JobId) -> Job: ...
    def rejected(self, job: JobId) -> bytes | None:
        """Return the rows that the job rejected (see `Succeeded`), or None if they are deleted."""

    def get_all(self, wanted: Collection[JobId], *, ended: bool = False) -> Mapping[JobId, Job]:
        """Return those of the jobs that exist; with `ended`, only those that have ended."""

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

    def backlog(self) -> Backlog:
        """Count the waiting jobs."""

    def failing(
        self, kind: str, *, limit: int, dataset: DatasetId | None = None
    ) -> Sequence[Failing]:
        """Return datasets whose last ended job of the kind failed, or `dataset` if it is one; those
        first that fail for the longest. Cancelled jobs do not count."""

    def prune(self, *, before: Instant, rejected_before: Instant | None = None) -> int:
        """Delete jobs that ended before `before` and that no repeated request refers to; return
        their number. Delete also rejected rows that are older than `rejected_before`."""


class JobQueue(JobSubmissions, JobClaims, JobRecords, Protocol):
    """Work to do later: at least once, and one job at a time per lock.

    New work and ends of jobs wake waiting processes. Code that uses a queue names the part
    that it needs.
    """
