"""Leases of claimed jobs: a thread extends them, and reports the progress of the jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from odf_node.storage.stores.ports import JobQueue
from odf_node.storage.stores.ports.errors import LeaseLost
from odf_node.storage.stores.ports.values import Job, JobStatus

from ...runtime.log import LOGGER, line
from ...runtime.progress import JobProgress
from .budget import BudgetWatch, Watching

BEATS_PER_LEASE = 3
LOOK_S = 0.1
"""Seconds between two checks of the budget."""
UNBOUNDED = Watching()
TELL_S = 0.5
"""Seconds between two reports of progress."""
CANCELLED_S = 1.0
"""Seconds between two checks for cancelled jobs."""
TELL_SMALL_S = 5.0
"""Seconds after which jobs that carry their input in the queue also report progress."""


@contextmanager
def held(
    jobs: JobQueue,
    group: Sequence[Job],
    worker: str,
    *,
    lease: timedelta,
    watching: Watching = UNBOUNDED,
) -> Iterator[dict[str, JobProgress]]:
    """Extend the leases until the block ends. Yields the progress of each job, by the job's id.

    When a job loses its lease, and so could no longer commit, or exceeds its budget, its progress
    object stops it.
    """
    meters = {str(job.id): JobProgress() for job in group}
    done = threading.Event()
    watch = BudgetWatch(watching, jobs, list(group), worker, meters)
    watch.look()  # code that does not release the interpreter could run before the thread does
    keeper = _Keeper(jobs, list(group), worker, lease, meters, watch)
    thread = threading.Thread(target=keeper.run, args=(done,), name="lease", daemon=True)
    thread.start()
    try:
        yield meters
    finally:
        done.set()
        thread.join()
        watch.end()


class _Keeper:
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

    def run(self, done: threading.Event) -> None:
        tells_at = self._began + min(TELL_S, self._pause)
        while not done.wait(min(LOOK_S, self._pause)):
            self._watch.look()  # also after all leases are gone, since the work goes on for a while
            if not self._group or time.monotonic() < tells_at:
                continue
            tells_at = time.monotonic() + min(TELL_S, self._pause)
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
