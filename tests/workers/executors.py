"""Executors of Spark that run in this process: what they write to a bucket, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa

from odf_workers.engines.spark import frames

Partitions = Sequence[Sequence[pa.RecordBatch]]


class Executors:
    """Stands for a `DataFrame` whose rows are written; `then` is called once they are."""

    def __init__(self, partitions: Partitions, then: Callable[[], None]) -> None:
        self._partitions, self._then = partitions, then
        self._work: Any = None

    def mapInArrow(self, work: Any, _schema: str) -> Executors:
        self._work = work
        return self

    def collect(self) -> list[dict[str, Any]]:
        """What the tasks say, one after the other."""
        said: list[dict[str, Any]] = []
        for number, batches in enumerate(self._partitions):
            with _task(number):
                for told in self._work(iter(batches)):
                    said += told.to_pylist()
        self._then()
        return said


@contextmanager
def _task(partition: int) -> Iterator[None]:
    task = SimpleNamespace(partitionId=lambda: partition, attemptNumber=lambda: 0)
    with mock.patch.object(frames, "TaskContext", SimpleNamespace(get=lambda: task)):
        yield


@contextmanager
def no_plans() -> Iterator[None]:
    """Numbers of partitions are those of `Executors`, which have no plan to tell them from."""

    def most(frame: Any) -> int:
        return len(frame._partitions)

    with mock.patch.object(frames, "_most_partitions", most):
        yield
