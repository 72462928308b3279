"""What workers are asked to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from odf_node.protocol.errors import NodeError
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.instant import Instant

from .values import (
    AccountId,
    Backlog,
    Job,
    JobId,
    JobOutcome,
    JobSpec,
    JobStatus,
    RequestKey,
    Submitted,
)


class JobSubmissions(Protocol):
    """For those who want work done.

    `submit` with a `dedup_key` that still waits gives the same job. Unknown job: `JobNotFound`.
    """

    def submit(self, spec: JobSpec) -> JobId: ...
    def submit_all(
        self, asked: Sequence[tuple[JobSpec, RequestKey | None]]
    ) -> Sequence[Submitted | NodeError]:
        """As `submit` of each, in one transaction; what is wrong with one request is its answer.

        A request gets the job it had before, unless that failed, was cancelled, or the key has
        expired. Another fingerprint under the key: `RequestKeyReused`; a dataset that went
        meanwhile: `DatasetNotFound`.
        """

    def repeated(self, request: RequestKey) -> JobId | None:
        """The job that `submit_all` would give for this request, if that were no new one."""

    def cancel(self, job: JobId) -> None: ...


class JobClaims(Protocol):
    """For workers.

    An expired lease makes a job claimable again; once another worker claimed it, or it was
    cancelled or finished, the late worker's `extend` and `finish` raise `LeaseLost`. Jobs of one
    lock start in the order of their submission; of several locks accounts take turns
    (`turns.py`), and jobs that were begun before come last.
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
        """As `claim`; and the jobs of the same lock and kind that come right behind it.

        `group_sizes` says how many there may be, by kind; by default one. Each has
        its lease and its end. Of several locks up to so many groups, if all of their jobs are of
        the first one's kind and carry a body; the first group alone if that does not.
        """

    def extend(
        self, job: JobId, worker: str, *, lease: timedelta, progress: dict[str, Any] | None = None
    ) -> None: ...
    def put_back(self, job: JobId, worker: str, *, pause: timedelta | None = None) -> None:
        """Give a claimed job back: it rests so long, then anybody may have it; without a pause it
        waits as before the claim, which does not count. Raises `LeaseLost`."""

    def finish(self, job: JobId, worker: str, outcome: JobOutcome) -> None: ...


class JobRecords(Protocol):
    """For those who want to know how jobs are. Unknown job: `JobNotFound`."""

    def get(self, job: JobId) -> Job: ...
    def rejected(self, job: JobId) -> bytes | None:
        """The rows its `Succeeded` said it set aside, as long as they are kept."""

    def get_all(self, wanted: Collection[JobId], *, ended: bool = False) -> Mapping[JobId, Job]:
        """Those of the jobs that are known; with `ended`, that have ended."""

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
        """Jobs in the order of their submission, or backwards; only those asked for."""

    def backlog(self) -> Backlog:
        """How many jobs wait."""

    def prune(self, *, before: Instant, rejected_before: Instant | None = None) -> int:
        """Forget jobs that ended before then, but those that answer repeats; returns how many.
        Forget also the rows that were set aside before another time."""


class JobQueue(JobSubmissions, JobClaims, JobRecords, Protocol):
    """Work to do later, at least once, one at a time per lock.

    New work and ends of jobs wake those that wait. Those who use a queue name the part
    that they need.
    """
