"""Limits of a job: its time, and the memory of the worker's own process.

The thread that extends the leases checks the limits. When a job exceeds its budget, its progress
object raises the error at the job's next batch, and the job ends with that error; engines stop as
they do on a cancellation. If the job reaches no further batch within a grace period, or takes
memory faster than that, the worker's process ends. Before that, the worker finishes the job with
its error, so that no worker begins it again, and puts jobs that it had not begun back into the
queue.

Memory here means the anonymous memory of the process (`RssAnon`): the system can drop mapped files,
and limits of address space (`RLIMIT_AS`, `RLIMIT_DATA`) would count memory that allocators and the
JVM's client reserve but never touch. A control group kills a process without an error, so the
budget stays below the group's limit. Engines are processes with limits of their own.

Leases of claimed jobs: a thread extends them, and reports the progress of the jobs.

One thread serves all claims of a worker, one after the other: a claim of small posts may take less
time than a thread needs to start and to end.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from odf_protocol.errors import LimitExceeded
from odf_storage.stores.jobs.sql import JobQueue
from odf_storage.stores.ports.errors import LeaseLost
from odf_storage.stores.ports.values import Failed, Job, JobStatus

from ...runtime.command import LOGGER, line
from ...runtime.progress import JobProgress

GRACE_S = 15.0
"""Seconds that a job beyond its budget has to reach its next batch."""
SPILL = 1.25
"""The process ends at once when it takes more memory than the budget times this factor."""
GROUP_SHARE = 0.8
"""Share of the control group's limit for this process; the worker's engines use the rest."""
OVER_BUDGET = 75
"""Exit code of a worker that ended because a job exceeded its budget."""
STUCK_LEASES = 2
"""A worker ends when none of its threads ran for this number of lease durations: it has lost its
jobs, and code that does not release the interpreter cannot be stopped otherwise."""
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class JobOverBudget(LimitExceeded):
    """A job took more of its worker's time or memory than allowed; nothing of it was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of time in seconds and of memory in bytes; zero means no limit."""

    seconds: float = 0.0
    memory: int = 0

    def broken_by(self, seconds: float, memory: int) -> JobOverBudget | None:
        if self.memory and memory > self.memory:
            return JobOverBudget(
                "JobTooLarge",
                f"the job took more than {self.memory} bytes of memory and was ended: post less "
                "at once",
                limit="job_memory_bytes",
                value=self.memory,
                setting="ODF_WORKER_JOB_MEMORY_BYTES",
            )
        if self.seconds and seconds > self.seconds:
            return JobOverBudget(
                "JobTooLong",
                f"the job took longer than {self.seconds:g} seconds and was ended: post less at "
                "once",
                limit="job_s",
                value=self.seconds,
                setting="ODF_WORKER_JOB_S",
            )
        return None

    def has_room(self) -> bool:
        """Whether this process has the memory for another job. Releases unused memory first if
        needed."""
        if not self.memory or memory_taken() < self.memory // 2:
            return True
        release_memory()
        return memory_taken() < self.memory // 2


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """Limits that a worker enforces on its jobs, and on its own threads."""

    budget: Budget = Budget()
    stuck_s: float = 0.0


def bounded(seconds: float, memory: int) -> Budget:
    """Return the budget, with its memory reduced to the share of this process's control group."""
    for path in _CGROUPS:
        with suppress(OSError, ValueError):  # no such group, or `max`
            memory = min(memory, int(int(Path(path).read_text()) * GROUP_SHARE))
    return Budget(seconds=seconds, memory=memory)


def memory_taken() -> int:
    """Return the bytes of memory that only this process uses; 0 if the system does not report
    them."""
    with suppress(OSError, ValueError, IndexError):
        for told in Path("/proc/self/status").read_text().splitlines():
            if told.startswith("RssAnon:"):
                return int(told.split()[1]) * 1024
    return 0


def release_memory() -> None:
    """Return freed memory to the system."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def end_process() -> None:
    """End the process at once, without waiting for threads, which may be stuck. Child processes
    notice the end of their parent."""
    os._exit(OVER_BUDGET)


class StuckLimit:
    """Ends the process when `renew` is not called for `seconds`; 0 means never. A thread that needs
    no interpreter does so."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._renewed_at: float | None = None

    def renew(self) -> None:
        now = time.monotonic()
        if self._seconds and (
            self._renewed_at is None or now - self._renewed_at > self._seconds / 4
        ):
            self._renewed_at = now
            faulthandler.dump_traceback_later(self._seconds, exit=True)

    def end(self) -> None:
        """End the limit until the next `renew`."""
        if self._renewed_at is not None:
            self._renewed_at = None
            faulthandler.cancel_dump_traceback_later()


class BudgetWatch:
    """Enforces the budget on the jobs of one claim."""

    def __init__(
        self,
        budget: Budget,
        jobs: JobQueue,
        group: Sequence[Job],
        worker: str,
        meters: Mapping[str, JobProgress],
    ) -> None:
        self._budget = budget
        self._jobs, self._group, self._worker = jobs, group, worker
        self._meters = meters
        self._told_at: float | None = None

    def look(self) -> None:
        """Check the running jobs; end those beyond the budget, or the process."""
        running = self._running()
        if not running:
            self._told_at = None
            return
        now, memory = time.monotonic(), memory_taken()
        began = min(self._meters[job.id].began or now for job in running)
        error = self._budget.broken_by(now - began, memory)
        if error is None:
            self._told_at = None
            return
        if self._told_at is None:
            self._told_at = now
            LOGGER.warning(line("job beyond its budget", job=running[0].id, message=error.message))
            for job in running:
                self._meters[job.id].end(error)
        if now - self._told_at > GRACE_S or memory > (self._budget.memory or memory) * SPILL:
            self._end_all(running, error)

    def _running(self) -> list[Job]:
        """Return the jobs at work. Jobs that wait for a commit count only if no other job is at
        work."""
        begun = [job for job in self._group if self._meters[job.id].began is not None]
        return [job for job in begun if not self._meters[job.id].commits] or begun

    def _end_all(self, running: Sequence[Job], error: JobOverBudget) -> None:
        for job in self._group:
            try:
                if job in running:
                    self._jobs.finish(job.id, self._worker, Failed.of(error))
                else:
                    self._jobs.put_back(job.id, self._worker)
            except LeaseLost:  # the job has ended already
                continue
            except Exception:  # the lease of the job runs out, and a worker begins it again
                LOGGER.exception(line("a job beyond its budget was not ended", job=job.id))
        LOGGER.error(line("worker ends: a job does not", message=error.message))
        end_process()


BEATS_PER_LEASE = 3
LOOK_S = 0.1
"""Seconds between two checks of the budget."""
IDLE_S = 2.0
"""Seconds without a claim after which the thread ends."""
UNBOUNDED = LeaseWatch()
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
        self, jobs: JobQueue, worker: str, *, lease: timedelta, watching: LeaseWatch = UNBOUNDED
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
