"""The same work for many things, some at a time, by threads that are kept for the next round."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar
from weakref import WeakSet

T = TypeVar("T")


class SideBySide:
    """So many threads, begun with the first work. Safe to use from several threads, and in a
    forked process, which begins its own. Work may not ask for more of it: it could wait for itself.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._threads, self._name = threads, name
        self._begin_anew()
        _EVERY.add(self)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def do(self, work: Callable[[T], object], items: Iterable[T]) -> None:
        """Returns when nothing of it runs any more; raises what the first that failed has raised,
        and begins with no more of them."""
        every = list(items)
        if len(every) == 1:
            work(every[0])
            return
        with self._lock:  # a pool that is closed takes nothing
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
        """End the threads; more work begins others."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


_EVERY: WeakSet[SideBySide] = WeakSet()


def _after_fork() -> None:
    """The threads, and who may have held the lock, stayed in the other process."""
    for one in list(_EVERY):
        one._begin_anew()


os.register_at_fork(after_in_child=_after_fork)
