"""What a job may take of its worker: time, and memory of the worker's own process.

The thread that keeps the leases looks. A job beyond its budget is told so by its progress, and ends
with an error at its next batch; engines are ended by that as by a cancellation. One that does not
come to a next batch in time, or takes memory faster, ends with its process: the job is given its
error first, so that nobody begins it again, and what had not begun goes back to the queue.

Memory is what the process has of its own (`RssAnon`): files that are mapped can be dropped, and
limits of address space (`RLIMIT_AS`, `RLIMIT_DATA`) would count what allocators and the JVM's
client reserve and never touch. A control group ends a process without a word, so the budget stays
below its limit. Engines are processes with limits of their own.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from odf_node.protocol.errors import LimitExceeded
from odf_node.storage.stores.ports import JobClaims
from odf_node.storage.stores.ports.errors import LeaseLost
from odf_node.storage.stores.ports.values import Failed, Job

from ...runtime.log import LOGGER, line
from ...runtime.progress import JobProgress

GRACE_S = 15.0
"""How long a job beyond its budget may take to come to its next batch."""
SPILL = 1.25
"""So much more memory than the budget ends the process at once."""
GROUP_SHARE = 0.8
"""Of the limit of the control group, which the engines of the worker share."""
OVER_BUDGET = 75
"""Exit code of a worker that ended for a job beyond its budget."""
STUCK_LEASES = 2
"""A worker none of whose threads got to run for so many leases ends: it has lost its jobs, and
code that keeps the interpreter to itself cannot be told."""
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class JobOverBudget(LimitExceeded):
    """A job took more of its worker than a job may; nothing of it was committed."""


class JobTooLong(JobOverBudget):
    """The job took longer than a job may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the job took longer than {seconds:g} seconds and was ended: post less at once",
            limit="job_s",
            value=seconds,
            setting="ODF_WORKER_JOB_S",
        )


class JobTooLarge(JobOverBudget):
    """The job took more memory than a job may."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the job took more than {size} bytes of memory and was ended: post less at once",
            limit="job_memory_bytes",
            value=size,
            setting="ODF_WORKER_JOB_MEMORY_BYTES",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Zero is no bound."""

    seconds: float = 0.0
    memory: int = 0

    def broken_by(self, seconds: float, memory: int) -> JobOverBudget | None:
        if self.memory and memory > self.memory:
            return JobTooLarge(self.memory)
        if self.seconds and seconds > self.seconds:
            return JobTooLong(self.seconds)
        return None

    def has_room(self) -> bool:
        """Whether this process has the memory for another job; gives back what is not used."""
        if not self.memory or memory_taken() < self.memory // 2:
            return True
        release_memory()
        return memory_taken() < self.memory // 2


@dataclass(frozen=True, slots=True)
class Watching:
    """How a worker watches its jobs, and itself."""

    budget: Budget = Budget()
    stuck_s: float = 0.0


def bounded(seconds: float, memory: int) -> Budget:
    """The budget, within what the control group of this process may take."""
    for path in _CGROUPS:
        with suppress(OSError, ValueError):  # no such group, or `max`
            memory = min(memory, int(int(Path(path).read_text()) * GROUP_SHARE))
    return Budget(seconds=seconds, memory=memory)


def memory_taken() -> int:
    """Bytes that only this process has; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        for told in Path("/proc/self/status").read_text().splitlines():
            if told.startswith("RssAnon:"):
                return int(told.split()[1]) * 1024
    return 0


def release_memory() -> None:
    """Give back to the system what was freed here."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def end_process() -> None:
    """At once, without a look at what threads do: they do not listen. Children see it end."""
    os._exit(OVER_BUDGET)


class BudgetWatch:
    """Of the jobs of one claim."""

    def __init__(
        self,
        watching: Watching,
        jobs: JobClaims,
        group: Sequence[Job],
        worker: str,
        meters: Mapping[str, JobProgress],
    ) -> None:
        self._budget, self._stuck_s = watching.budget, watching.stuck_s
        self._jobs, self._group, self._worker = jobs, group, worker
        self._meters = meters
        self._told_at: float | None = None
        self._armed_at = 0.0

    def look(self) -> None:
        """End what is beyond the budget, or the process."""
        self._arm()
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

    def _arm(self) -> None:
        """Have the process ended by a thread that needs no interpreter, unless we come again."""
        if self._stuck_s and time.monotonic() - self._armed_at > self._stuck_s / 4:
            self._armed_at = time.monotonic()
            faulthandler.dump_traceback_later(self._stuck_s, exit=True)

    def end(self) -> None:
        """The jobs are done."""
        if self._armed_at:
            faulthandler.cancel_dump_traceback_later()

    def _running(self) -> list[Job]:
        """The jobs at work; those that wait for a commit only if no other is."""
        begun = [job for job in self._group if self._meters[job.id].began is not None]
        return [job for job in begun if not self._meters[job.id].commits] or begun

    def _end_all(self, running: Sequence[Job], error: JobOverBudget) -> None:
        for job in self._group:
            try:
                if job in running:
                    self._jobs.finish(job.id, self._worker, Failed.of(error))
                else:
                    self._jobs.put_back(job.id, self._worker)
            except LeaseLost:  # it has ended
                continue
            except Exception:  # its lease runs out, and it is begun again
                LOGGER.exception(line("a job beyond its budget was not ended", job=job.id))
        LOGGER.error(line("worker ends: a job does not", message=error.message))
        end_process()
