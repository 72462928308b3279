"""Parts of a check that are done each by itself, and where they are done.

A stage is a function of a source of objects and of one split. It keeps nothing between two splits
that a result depends on, so results are the same in threads of this process (`InThreads`) and
wherever else a `Runner` takes them. Stages may be pickled: they are functions of modules, with
values bound by `functools.partial`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...lanes import THREADS, expect
from ..contents.named_objects import NamedObject
from .source import ChainSource, ObjectSource

W = TypeVar("W")
R = TypeVar("R")
Stage = Callable[[ObjectSource, W], R]


@dataclass(frozen=True, slots=True)
class Split(Generic[W]):
    """A part of a check, and the objects that it opens."""

    work: W
    objects: tuple[NamedObject, ...]

    @property
    def size(self) -> int:
        """Bytes of the objects, as far as blocks tell."""
        return sum(each.size for each in self.objects)


class Runner(Protocol):
    """What does the stages of one verification."""

    @property
    def width(self) -> int:
        """How many splits are done side by side."""

    @property
    def splits(self) -> int:
        """How many were done so far."""

    def run(self, stage: Stage[W, R], splits: Iterable[Split[W]]) -> Iterator[R]:
        """What the stage gives for each split, in the order of the splits.

        Raises: what the stage raises for the first split, in that order, that raises something.
        """


Where = Callable[[ChainSource, int], Runner]
"""What does the stages for a source whose blocks name so many bytes of objects."""


class InThreads:
    """Splits in threads of this process."""

    def __init__(self, source: ObjectSource, threads: int) -> None:
        self._source, self.width = source, threads
        self.splits = 0

    def run(self, stage: Stage[W, R], splits: Iterable[Split[W]]) -> Iterator[R]:
        """As `Runner.run`. At most one split more than there are threads is begun before the
        first is asked for; the one that is under way is waited for if the caller stops."""
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
    """The `Where` of whoever has no other place."""
    expect(size)
    return InThreads(source, threads)
