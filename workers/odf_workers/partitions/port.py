"""The interface on which stages run: rows in partitions, and stages as functions of a partition.

A stage receives batches, and returns batches and facts about them: small values that are passed to
the caller. A stage does not know where the partitions are, nor how rows move between them. Facts
and functions are pickled: functions belong to modules, with values bound by `functools.partial`.

Files as stages access them, on any machine: see `odf_workers/engines/exchange`.

The resources that stages used on Spark: for the receipt of a job.

Partitions in this process, one after the other: for batches that fit into its memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa

from ..engines.exchange.links import (
    Delivered,
    File,
    LinkSpan,
    Outbox,
    Spans,
    at_hand,
    deliver,
    workplace,
)

__all__ = [
    "Delivered",
    "File",
    "LinkSpan",
    "Outbox",
    "Spans",
    "at_hand",
    "deliver",
    "workplace",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageUsage:
    """Where stages ran, the number of jobs and tasks, and bytes: shuffled between tasks, and
    spilled by Spark's sort of a shuffle, which takes place for more than 200 partitions only."""

    way: Literal["process", "spark"] = "process"
    jobs: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    spill_bytes: int = 0
    page: str | None = None
    """URL of Spark's page about its jobs, if it serves one."""


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
    def usage(self) -> StageUsage:
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


class Here:
    """Runs stages in the caller's thread, one at a time."""

    in_process = True
    width = 1
    partition_bytes = sys.maxsize
    usage = StageUsage()

    def file(self, path: Path, *, lasting: str | None = None) -> File:  # noqa: ARG002
        return path

    def spans(self, path: Path, parts: Sequence[Spans | None]) -> Sequence[File]:
        return [path] * len(parts)

    def outbox(self, folder: Path, partitions: int) -> Outbox:  # noqa: ARG002
        return Outbox(folder=folder)

    def close(self) -> None:
        """Do nothing: the rows are released with the partitions."""

    def read(self, inputs: Sequence[T], read: Read[T]) -> PartitionsHere:
        return PartitionsHere([_kept(read(each)) for each in inputs])


class PartitionsHere:
    """Batches in memory. An error of a stage is raised at once."""

    def __init__(self, kept: list[tuple[list[pa.RecordBatch], list[Any]]]) -> None:
        self.kept = kept

    def facts(self) -> list[list[Any]]:
        return [facts for _, facts in self.kept]

    def then(self, partitions: int, route: Route, work: Work) -> PartitionsHere:
        groups: list[list[pa.RecordBatch]] = [[] for _ in range(partitions)]
        for number, (batches, _) in enumerate(self.kept):
            for group, batch in route(number, iter(batches)):
                groups[group].append(batch)
        return PartitionsHere([_kept(work(at, iter(each))) for at, each in enumerate(groups)])

    def release(self) -> None:
        self.kept = []


def _kept(output: Output) -> tuple[list[pa.RecordBatch], list[Any]]:
    every = list(output)
    batches = [each for each in every if isinstance(each, pa.RecordBatch)]
    return batches, [each for each in every if not isinstance(each, pa.RecordBatch)]
