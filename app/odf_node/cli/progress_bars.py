"""Progress bars on stderr, if stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..client.progress import UNWATCHED, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn, Task, TaskID

SENT = "sent"
"""The step that counts bytes; others count rows or objects."""
IS_BYTES = "is_bytes"
"""Field of bars that count bytes."""


class _Shown:
    """Bars for blocks (by count), for objects (by bytes), and for the time of the remote commit.

    Any thread may move the bars.
    """

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._blocks: TaskID | None = None
        self._objects: TaskID | None = None
        self._objects_total = 0

    def expect_blocks(self, count: int) -> None:
        self._bars.update(self._block_bar(), total=count)

    def expect_objects(self, count: int, size: int) -> None:
        if count == 0:
            return
        if self._objects is None:
            self._objects = self._bars.add_task("objects", total=0, is_bytes=True)
        self._objects_total += size
        self._bars.update(self._objects, total=self._objects_total)

    def block(self) -> None:
        self._bars.advance(self._block_bar())

    def object_bytes(self, size: int) -> None:
        if self._objects is not None:
            self._bars.advance(self._objects, size)

    def object_done(self) -> None: ...

    def committing(self) -> None:
        self._bars.add_task("commit", total=None)

    def _block_bar(self) -> TaskID:
        if self._blocks is None:
            self._blocks = self._bars.add_task("blocks", total=None)
        return self._blocks


@contextmanager
def stepwise(*, quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a function that shows a bar for each named step, or None if no person watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with _bars() as bars:
        steps: dict[str, TaskID] = {}

        def step(name: str, done: int, total: int) -> None:
            if name not in steps:
                _end_the_endless(bars, steps)
                steps[name] = bars.add_task(name, total=None, is_bytes=name == SENT)
            bars.update(steps[name], completed=done, total=total or None)

        yield step


def _end_the_endless(bars: Bars, steps: dict[str, TaskID]) -> None:
    """Complete bars of unknown length when a new step begins; remove those that counted nothing."""
    names = {task: name for name, task in steps.items()}
    for shown in bars.tasks:
        if shown.total is None and shown.completed:
            bars.update(shown.id, total=shown.completed)
        elif shown.total is None:
            bars.remove_task(shown.id)
            steps.pop(names[shown.id], None)


@contextmanager
def progress_bars(*, quiet: bool) -> Iterator[Progress]:
    """Yield the progress of one command. It shows bars only if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield UNWATCHED
        return
    with _bars() as bars:
        yield _Shown(bars)


def _amount_column() -> ProgressColumn:
    """Return the column that says how much is done: a count, or bytes and their speed."""
    from rich.progress import (
        DownloadColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Amount(ProgressColumn):
        counts, sizes, speeds = MofNCompleteColumn(), DownloadColumn(), TransferSpeedColumn()

        def render(self, task: Task) -> Text:
            if not task.fields.get(IS_BYTES):
                return self.counts.render(task)
            return Text.assemble(self.sizes.render(task), " ", self.speeds.render(task))

    return Amount()


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description:>8}"), BarColumn(), _amount_column())
    return Progress(*columns, console=Console(stderr=True), transient=True)
