"""Work of a backup that waits for disks and networks, several pieces at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

AT_ONCE = 8
"""A disk answers some waiting syncs together, and a bucket any number of requests."""
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


class BackupThreads:
    """Threads that end with the block; work that has not begun by then is not done if it fails."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, "backup")
        self._pending = deque[Future[Any]]()

    def each(self, work: Callable[[_Item], _Made], items: Iterable[_Item]) -> Iterator[_Made]:
        """Yield what `work` returns of each item, in their order. Raises what it raises."""
        pending = deque[Future[_Made]]()
        for item in items:
            pending.append(self._pool.submit(work, item))
            if len(pending) > 2 * AT_ONCE:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def later(self, work: Callable[..., object], *given: object) -> None:
        """Do something beside; waits if too much is waiting. Raises what earlier work raised."""
        self._pending.append(self._pool.submit(work, *given))
        if len(self._pending) > AT_ONCE:
            self._pending.popleft().result()

    def wait(self) -> None:
        """Wait for all that `later` got. Raises what it raised."""
        while self._pending:
            self._pending.popleft().result()

    def __enter__(self) -> BackupThreads:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
