"""Leases of claimed jobs: a thread extends them, and reports the progress of the jobs.

One thread serves all claims of a worker, one after the other: a claim of small posts may take less
time than a thread needs to start and to end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from odf_storage.stores.ports import JobQueue
from odf_storage.stores.ports.errors import LeaseLost
from odf_storage.stores.ports.values import Job, JobStatus

from ...runtime.log import LOGGER, line
from ...runtime.progress import JobProgress
from .budget import BudgetWatch, StuckLimit, Watching

BEATS_PER_LEASE = 3
LOOK_S = 0.1
"""Seconds between two checks of the budget."""
IDLE_S = 2.0
"""Seconds without a claim after which the thread ends."""
UNBOUNDED = Watching()
TELL_S = 0.5
"""Seconds between two reports of progress."""
CANCELLED_S = 1.0
"""Seconds between two checks for cancelled jobs."""
TELL_SMALL_S = 5.0
"""Seconds after which jobs that carry their input in the queue also report progress."""


class LeaseKeeper:
    """Extends the leases of a worker's jobs, one claim at a time.

    When a job loses its lease, and so could no longer commit, or exceeds its budget, its progress
    object stops it.
    """

    def __init__(
        self, jobs: JobQueue, worker: str, *, lease: timedelta, watching: Watching = UNBOUNDED
    ) -> None:
        self._jobs, self._worker, self._lease = jobs, worker, lease
        self._watching = watching
        self._stuck = StuckLimit(watching.stuck_s)
        self._lock = threading.Lock()
        self._claim: _Claim | None = None
        self._thread: threading.Thread | None = None
        self._idle_since = 0.0

    @contextmanager
    def held(self, group: Sequence[Job]) -> Iterator[dict[str, JobProgress]]:
        """Extend the leases until the block ends. Yields the progress of each job, by the job's
        id."""
        meters = {str(job.id): JobProgress() for job in group}
        watch = BudgetWatch(self._watching.budget, self._jobs, list(group), self._worker, meters)
        claim = _Claim(self._jobs, list(group), self._worker, self._lease, meters, watch)
        with self._lock:
            # code that does not release the interpreter could run before the thread does
            self._stuck.renew()
            watch.look()
            self._claim = claim
            if not self._is_running():
                self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
                self._thread.start()
        try:
            yield meters
        finally:
            with self._lock:  # no lease is extended afterwards
                self._claim, self._idle_since = None, time.monotonic()
                if not self._is_running():  # an error ended the thread, which renews the limit
                    self._stuck.end()

    def _is_running(self) -> bool:
        """Whether the thread serves claims. One that has decided to end may still be alive."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        pause = min(LOOK_S, self._lease.total_seconds() / BEATS_PER_LEASE)
        while True:
            time.sleep(pause)
            with self._lock:
                self._stuck.renew()
                if self._claim is not None:
                    self._claim.look()
                elif time.monotonic() - self._idle_since > IDLE_S:
                    self._stuck.end()
                    self._thread = None
                    return


class _Claim:
    """The jobs of one claim."""

    def __init__(
        self,
        jobs: JobQueue,
        group: list[Job],
        worker: str,
        lease: timedelta,
        meters: dict[str, JobProgress],
        watch: BudgetWatch,
    ) -> None:
        self._jobs, self._group, self._worker, self._lease = jobs, group, worker, lease
        self._meters, self._watch = meters, watch
        self._told: dict[str, object] = {}
        self._pause = lease.total_seconds() / BEATS_PER_LEASE
        self._began = time.monotonic()
        self._due = self._began + self._pause
        self._next_look = self._began + CANCELLED_S
        self._tells_at = self._began + min(TELL_S, self._pause)

    def look(self) -> None:
        """Check the budget; extend the leases and report the progress, if it is time."""
        self._watch.look()  # also after all leases are gone, since the work goes on for a while
        if not self._group or time.monotonic() < self._tells_at:
            return
        self._tells_at = time.monotonic() + min(TELL_S, self._pause)
        self._look_for_cancelled()
        is_due = time.monotonic() >= self._due
        if is_due:
            self._due = time.monotonic() + self._pause
        for job in list(self._group):
            told = self._meters[job.id].told() if self._tells(job) else None
            news = told if told != self._told.get(job.id) else None
            if is_due or news is not None:
                self._extend(job, news)

    def _look_for_cancelled(self) -> None:
        """Look for cancelled jobs more often than leases are extended, so that a user who cancels a
        job waits only briefly."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + CANCELLED_S
        try:
            ended = self._jobs.get_all([job.id for job in self._group], ended=True)
        except Exception:  # a busy or restarting database: the next check may succeed
            LOGGER.exception("jobs not looked at")
            return
        for job in list(self._group):
            if job.id in ended and ended[job.id].status is JobStatus.CANCELLED:
                LOGGER.info(line("job cancelled", job=job.id))
                self._group.remove(job)
                self._meters[job.id].lose()

    def _tells(self, job: Job) -> bool:
        """Whether the job reports progress. Small jobs may be numerous, so they report only if they
        take unexpectedly long."""
        return job.spec.body is None or time.monotonic() >= self._began + TELL_SMALL_S

    def _extend(self, job: Job, news: dict[str, object] | None) -> None:
        try:
            self._jobs.extend(job.id, self._worker, lease=self._lease, progress=news)
            self._told[job.id] = news or self._told.get(job.id)
        except LeaseLost:
            self._lost(job)
        except Exception:  # a busy or restarting database: the next attempt may succeed
            LOGGER.exception(line("lease not extended", job=job.id))

    def _lost(self, job: Job) -> None:
        """Stop a job whose lease is lost, unless it has ended properly."""
        try:
            has_ended = self._jobs.get(job.id).outcome is not None
        except Exception:  # as in `_extend`; the next attempt to extend the lease asks again
            LOGGER.exception(line("lost lease not looked at", job=job.id))
            return
        self._group.remove(job)
        if not has_ended:
            LOGGER.warning(line("lease lost", job=job.id))
            self._meters[job.id].lose()
