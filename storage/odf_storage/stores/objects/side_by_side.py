"""Runs the same work for many items in a limited number of threads, which are reused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar
from weakref import WeakSet

T = TypeVar("T")


class SideBySide:
    """A pool of threads that starts with the first work. Safe to use from several threads, and in a
    forked process, which starts its own pool. Work must not call `do`: it could wait for itself.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads, self._name = threads, name
        self._begin_anew()
        _EVERY.add(self)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def do(self, work: Callable[[T], object], items: Iterable[T]) -> None:
        """Run `work` for each item and return when none runs any more. If one fails, start no
        further calls and raise the first error."""
        every = list(items)
        if len(every) == 1:
            work(every[0])
            return
        with self._lock:  # a pool that is shut down accepts no work
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, self._name)
            running = [self._pool.submit(work, item) for item in every]
        try:
            wait(running, return_when=FIRST_EXCEPTION)
        finally:
            begun = [one for one in running if not one.cancel()]
            wait(begun)
        for one in begun:
            one.result()

    def close(self) -> None:
        """End the threads; later work starts new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


_EVERY: WeakSet[SideBySide] = WeakSet()


def _after_fork() -> None:
    """A forked process has no threads of its parent, and its copy of the lock may be locked for
    ever; start anew."""
    for one in list(_EVERY):
        one._begin_anew()


os.register_at_fork(after_in_child=_after_fork)
