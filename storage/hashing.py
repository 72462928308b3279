"""Threads for hashing: the `run` that `protocol.arrow_digest` takes and has none of its own.

SHA3 and the array work around it release the interpreter's lock, so the columns of a batch
are hashed side by side. More threads than columns, or than cores, gain nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from protocol.arrow_digest import Run

THREADS = min(4, os.cpu_count() or 1)
"""Threads worth having: few files have more than four long columns."""


@contextmanager
def threaded(threads: int = THREADS) -> Iterator[Run]:
    """A `run` for digests, over a pool that lives as long as the context.

    An error of a job is raised by the run once the others of its batch have ended.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="hashing") as pool:

        def run(jobs: Iterable[Callable[[], None]]) -> None:
            started = [pool.submit(job) for job in jobs]
            failures = [problem for job in started if (problem := job.exception())]
            if failures:
                raise failures[0]

        yield run


def in_turn(jobs: Iterable[Callable[[], None]]) -> None:
    """A `run` for digests of a few rows: one job after the other."""
    for job in jobs:
        job()
