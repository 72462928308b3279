"""What stages run on: rows in partitions, each stage a function of one partition.

A stage sees batches and gives batches, and facts about them: small values that the caller is
told. Where the partitions are, and what carries rows between them, is not its concern. Facts and
functions are pickled: functions are those of modules, with values bound by `functools.partial`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from .files import Delivered, File, Outbox
from .usage import Usage

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]
Output = Iterator[Any]
"""Batches, and facts: whatever is no batch."""
Read = Callable[[T], Output]
"""What one input gives."""
Route = Callable[[int, Batches], Iterator[tuple[int, pa.RecordBatch]]]
"""From a partition (its number from 0, its rows) to rows and the number of the partition in which
the next stage meets them."""
Work = Callable[[int, Batches], Output]
"""What one partition gives. Its rows come in the order of the partitions they come from, and in
theirs."""


class Partitions(Protocol):
    """Rows of a stage. Each stage runs once, unless a part of what it gave is lost."""

    def facts(self) -> list[list[Any]]:
        """What the stage tells, by partition.

        Raises:
            NodeError: what the first partition in order raises that raises something.
            StageFailed: the stage could not be run.
        """

    def then(self, partitions: int, route: Route, work: Work) -> Partitions:
        """The next stage. Ask for the facts of this one before."""

    def release(self) -> None:
        """The rows are not needed any more."""


class Way(Protocol):
    """Where stages run."""

    @property
    def usage(self) -> Usage:
        """What all stages so far took of Spark."""

    @property
    def width(self) -> int:
        """How many partitions run side by side."""

    @property
    def partition_bytes(self) -> int:
        """Rows of a partition that fit the memory of a task while they are merged or sorted."""

    def file(self, path: Path) -> File:
        """A file of this machine, as stages are given it."""

    def outbox(self, folder: Path, partitions: int) -> Outbox:
        """Where so many partitions put files, which are to be in that folder in the end."""

    def received(self, delivered: Delivered, outbox: Outbox) -> Path:
        """Where a file lies that a stage delivered.

        Raises:
            ExchangeFailed: it is not what the stage wrote.
        """

    def read(self, inputs: Sequence[T], read: Read[T]) -> Partitions:
        """The first stage: a partition for each input."""

    def close(self) -> None:
        """No rows of any stage are needed any more."""
