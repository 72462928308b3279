"""Independent parts of a verification (splits), and runners that process them.

A stage is a function of a source of objects and of one split. It keeps no state between splits
that affects results, so they are the same in threads of this process (`InThreads`) and in any
other `Runner`. Stages can be pickled: they are functions of modules, with values bound by
`functools.partial`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...lanes import THREADS, expect
from ...stores.index.named_objects import NamedObject
from .source import ChainSource, ObjectSource

W = TypeVar("W")
R = TypeVar("R")
Stage = Callable[[ObjectSource, W], R]


@dataclass(frozen=True, slots=True)
class Split(Generic[W]):
    """A part of a verification, and the objects that it opens."""

    work: W
    objects: tuple[NamedObject, ...]

    @property
    def size(self) -> int:
        """Bytes of the objects, as far as blocks declare them."""
        return sum(each.size for each in self.objects)


class Runner(Protocol):
    """Runs the stages of one verification."""

    @property
    def width(self) -> int:
        """Number of splits that run in parallel."""

    @property
    def splits(self) -> int:
        """Number of splits that were started so far."""

    def run(self, stage: Stage[W, R], splits: Iterable[Split[W]]) -> Iterator[R]:
        """Yield the result of the stage for each split, in the order of the splits.

        Raises: the error of the stage for the first split, in that order, that fails.
        """


Where = Callable[[ChainSource, int], Runner]
"""Returns the runner for a source and the total bytes of objects that its blocks name."""


class InThreads:
    """Runner that uses threads of this process."""

    def __init__(self, source: ObjectSource, threads: int) -> None:
        self._source, self.width = source, threads
        self.splits = 0

    def run(self, stage: Stage[W, R], splits: Iterable[Split[W]]) -> Iterator[R]:
        """As `Runner.run`. Submit at most one split more than there are threads before the first
        result is yielded; if the caller stops, wait for the splits that are running."""
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(self.width, thread_name_prefix="verify") as pool:
            try:
                for split in splits:
                    self.splits += 1
                    waiting.append(pool.submit(stage, self._source, split.work))
                    if len(waiting) > self.width:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def in_threads(source: ChainSource, size: int, *, threads: int = THREADS) -> InThreads:
    """The default `Where`: run in threads of this process."""
    expect(size)
    return InThreads(source, threads)
