"""Threads for hashing: what `protocol.sha3` does in one thread, over all cores.

SHA3, the array work around it and Parquet release the interpreter's lock, so streams are hashed
side by side in each thread, and threads beside each other. More threads than cores gain nothing.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager

from protocol.sha3 import Feeds, Run, side_by_side

THREADS = min(4, os.cpu_count() or 1)
"""Threads worth having: few files have more than four long columns."""


@contextmanager
def threaded(threads: int = THREADS) -> Iterator[Run]:
    """A `run` for digests, over so many threads, this one included, for as long as the context.

    An error in a stream is raised by the run once the others have ended. Whoever asks for a run
    works at it, so that it ends also when no other thread is free.
    """
    if threads == 1:
        yield side_by_side
        return
    with ThreadPoolExecutor(threads - 1, thread_name_prefix="hashing") as pool:
        yield lambda streams: _shared(streams, pool, threads - 1)


def _shared(streams: Iterable[Feeds], pool: Executor, helpers: int) -> None:
    failures: list[BaseException] = []
    left = deque(_noting(feeds, failures) for feeds in streams)
    helping = [pool.submit(_work, left) for _ in range(min(helpers, len(left) - 1))]
    _work(left)
    begun = [helper for helper in helping if not helper.cancel()]
    wait(begun)
    if failures:
        raise failures[0]


def _work(left: deque[Feeds]) -> None:
    side_by_side(_taken(left))


def _taken(left: deque[Feeds]) -> Iterator[Feeds]:
    while True:
        try:
            yield left.popleft()
        except IndexError:
            return


def _noting(feeds: Feeds, failures: list[BaseException]) -> Feeds:
    """The same to where it fails: a failure ends one stream, not those beside it."""
    try:
        yield from feeds
    except GeneratorExit:
        raise
    except BaseException as failure:
        failures.append(failure)
