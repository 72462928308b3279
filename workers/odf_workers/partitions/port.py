"""The interface on which stages run: rows in partitions, and stages as functions of a partition.

A stage receives batches, and returns batches and facts about them: small values that are passed to
the caller. A stage does not know where the partitions are, nor how rows move between them. Facts
and functions are pickled: functions belong to modules, with values bound by `functools.partial`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from .files import File, Outbox, Spans
from .usage import Usage

T = TypeVar("T")
Batches = Iterator[pa.RecordBatch]
Output = Iterator[Any]
"""Batches, and facts: every value that is not a batch."""
Read = Callable[[T], Output]
"""Reads one input."""
Route = Callable[[int, Batches], Iterator[tuple[int, pa.RecordBatch]]]
"""Maps a partition (its number from 0, its rows) to rows, each with the number of its partition in
the next stage."""
Work = Callable[[int, Batches], Output]
"""Processes one partition. Its rows arrive in the order of their previous partitions, and within
these in their order."""


class Partitions(Protocol):
    """Rows of a stage. Each stage runs once, unless a part of its result is lost."""

    def facts(self) -> list[list[Any]]:
        """Return the facts of the stage, by partition.

        Raises:
            NodeError: the error of the first partition, in order, that failed.
            StageFailed: the stage could not be run.
        """

    def then(self, partitions: int, route: Route, work: Work) -> Partitions:
        """Return the next stage. Request the facts of this one first."""

    def release(self) -> None:
        """Release the rows, which are no longer needed."""


class Way(Protocol):
    """Runs stages: in this process, or on Spark."""

    @property
    def usage(self) -> Usage:
        """Resources of Spark used by all stages so far."""

    @property
    def in_process(self) -> bool:
        """Whether stages run in the worker's process: files and values reach them as they are."""

    @property
    def width(self) -> int:
        """Number of partitions that run in parallel."""

    @property
    def partition_bytes(self) -> int:
        """Bytes of rows in a partition that a task can merge or sort in its memory."""

    def file(self, path: Path, *, lasting: str | None = None) -> File:
        """Return a file of this machine in the form that stages receive. `lasting` is the digest of
        a file that never changes and that further jobs need as well: it is sent only once."""

    def spans(self, path: Path, parts: Sequence[Spans | None]) -> Sequence[File]:
        """Return a file once for each part, for stages that read only these bytes of it; None means
        all bytes."""

    def outbox(self, folder: Path, partitions: int) -> Outbox:
        """Return where the given number of partitions put files: in the folder, or in a bucket."""

    def read(self, inputs: Sequence[T], read: Read[T]) -> Partitions:
        """Run the first stage: a partition for each input."""

    def close(self) -> None:
        """Release the rows of all stages, which are no longer needed."""
