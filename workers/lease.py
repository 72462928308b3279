"""Keeping a claimed job ours: a thread extends its lease while the work goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from storage.errors import LeaseLost
from storage.ports import JobQueue
from storage.values import Job

from .log import LOGGER, line

BEATS_PER_LEASE = 3


@contextmanager
def held(jobs: JobQueue, job: Job, worker: str, *, lease: timedelta) -> Iterator[None]:
    """Extend the lease until the block ends. A lost lease is logged; the head's
    compare-and-swap keeps a late commit out."""
    done = threading.Event()
    beat = threading.Thread(
        target=_beat, args=(jobs, job, worker, lease, done), name="lease", daemon=True
    )
    beat.start()
    try:
        yield
    finally:
        done.set()
        beat.join()


def _beat(jobs: JobQueue, job: Job, worker: str, lease: timedelta, done: threading.Event) -> None:
    while not done.wait(lease.total_seconds() / BEATS_PER_LEASE):
        try:
            jobs.extend(job.id, worker, lease=lease)
        except LeaseLost:
            LOGGER.warning(line("lease lost", job=job.id))
            return
        except Exception:  # a busy or restarting database: the next beat may get through
            LOGGER.exception(line("lease not extended", job=job.id))
