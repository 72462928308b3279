"""Partitions in this process, one after the other: for batches that fit into its memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from .files import File, Outbox, Spans
from .port import Output, Read, Route, T, Work
from .usage import Usage


class Here:
    """Runs stages in the caller's thread, one at a time."""

    in_process = True
    width = 1
    partition_bytes = sys.maxsize
    usage = Usage()

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
