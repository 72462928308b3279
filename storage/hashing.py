"""Threads for hashing: the `run` that `protocol.arrow_digest` takes and has none of its own.

SHA3, the array work around it and Parquet release the interpreter's lock, so the columns of a
batch are hashed side by side while the next is decoded. More threads than cores gain nothing.
Whoever asks for a run works at it, so that it ends also when no other thread is free.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager

from protocol.arrow_digest import Run, in_order

THREADS = min(4, os.cpu_count() or 1)
"""Threads worth having: few files have more than four long columns."""

Job = Callable[[], None]


@contextmanager
def threaded(threads: int = THREADS) -> Iterator[Run]:
    """A `run` for digests, over so many threads, this one included, for as long as the context.

    An error of a job is raised by the run once the others of its batch have ended.
    """
    if threads == 1:
        yield in_order
        return
    with ThreadPoolExecutor(threads - 1, thread_name_prefix="hashing") as pool:
        yield lambda jobs: shared(jobs, pool, threads - 1)


def shared(jobs: Iterable[Job], pool: Executor, helpers: int) -> None:
    """Run jobs here and in up to so many threads of a pool, if they come to it in time.

    A thread of the same pool may call it: nothing that has not begun is waited for.
    """
    left = deque(jobs)
    helping = [pool.submit(_work, left) for _ in range(min(helpers, len(left) - 1))]
    failures = _work(left)
    begun = [helper for helper in helping if not helper.cancel()]
    wait(begun)
    failures += [failure for helper in begun for failure in helper.result()]
    if failures:
        raise failures[0]


def _work(left: deque[Job]) -> list[BaseException]:
    """Do what is left, one after the other; what went wrong."""
    failures: list[BaseException] = []
    while True:
        try:
            job = left.popleft()
        except IndexError:
            return failures
        try:
            job()
        except BaseException as failure:  # raised by the run, when the others have ended
            failures.append(failure)
