"""Keeping claimed jobs ours: a thread extends their leases, and tells how far they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from storage.errors import LeaseLost
from storage.ports import JobQueue
from storage.values import Job

from .log import LOGGER, line
from .meter import Meter

BEATS_PER_LEASE = 3
TELL_S = 0.5
"""Seconds between two reports of progress."""
TELL_SMALL_S = 5.0
"""Seconds after which jobs that carry their input report as well."""


@contextmanager
def held(
    jobs: JobQueue, group: Sequence[Job], worker: str, *, lease: timedelta
) -> Iterator[dict[str, Meter]]:
    """Extend the leases until the block ends; gives the meter of each job, by its id.

    A job that is lost is told so by its meter; it could not commit any more.
    """
    meters = {str(job.id): Meter() for job in group}
    done = threading.Event()
    keeper = _Keeper(jobs, list(group), worker, lease, meters)
    thread = threading.Thread(target=keeper.run, args=(done,), name="lease", daemon=True)
    thread.start()
    try:
        yield meters
    finally:
        done.set()
        thread.join()


class _Keeper:
    def __init__(
        self,
        jobs: JobQueue,
        group: list[Job],
        worker: str,
        lease: timedelta,
        meters: dict[str, Meter],
    ) -> None:
        self._jobs, self._group, self._worker, self._lease = jobs, group, worker, lease
        self._meters = meters
        self._told: dict[str, object] = {}
        self._pause = lease.total_seconds() / BEATS_PER_LEASE
        self._began = time.monotonic()
        self._due = self._began + self._pause

    def run(self, done: threading.Event) -> None:
        while self._group and not done.wait(min(TELL_S, self._pause)):
            is_due = time.monotonic() >= self._due
            if is_due:
                self._due = time.monotonic() + self._pause
            for job in list(self._group):
                told = self._meters[job.id].told() if self._tells(job) else None
                news = told if told != self._told.get(job.id) else None
                if is_due or news is not None:
                    self._extend(job, news)

    def _tells(self, job: Job) -> bool:
        """How far a small job is, is told when it takes unexpectedly long: there may be many."""
        return job.spec.body is None or time.monotonic() >= self._began + TELL_SMALL_S

    def _extend(self, job: Job, news: dict[str, object] | None) -> None:
        try:
            self._jobs.extend(job.id, self._worker, lease=self._lease, progress=news)
            self._told[job.id] = news or self._told.get(job.id)
        except LeaseLost:
            self._group.remove(job)
            if self._jobs.get(job.id).outcome is None:  # else it has ended well
                LOGGER.warning(line("lease lost", job=job.id))
                self._meters[job.id].lose()
        except Exception:  # a busy or restarting database: the next beat may get through
            LOGGER.exception(line("lease not extended", job=job.id))
