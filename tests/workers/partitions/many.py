"""Many partitions without Spark: its stages, its messages and its pickling, in this thread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pyspark import cloudpickle

from odf_node.workers.partitions import on_spark
from odf_node.workers.partitions.failure import Failure
from odf_node.workers.partitions.files import Delivered, File, Outbox
from odf_node.workers.partitions.port import Read, Route, T, Work
from odf_node.workers.partitions.usage import Usage


class Many:
    """Every stage runs twice, as it may on Spark, and must give the same messages; what tasks send
    each other arrives in any order."""

    name: Literal["spark"] = "spark"
    usage = Usage()

    def __init__(self, width: int, chance: random.Random) -> None:
        self.width, self.chance = width, chance
        self.partition_bytes = 1000
        self.partitions: list[int] = []
        """Of each stage that ran."""

    def file(self, path: Path) -> File:
        return path

    def outbox(self, folder: Path, partitions: int) -> Outbox:
        folder.mkdir(parents=True, exist_ok=True)
        return Outbox(folder=folder)

    def received(self, delivered: Delivered, outbox: Outbox) -> Path:
        return delivered.path

    def close(self) -> None:
        """Rows go with the partitions."""

    def read(self, inputs: Sequence[T], read: Read[T]) -> PartitionsOfMany:
        version = on_spark._version()
        tasks = [partial(on_spark._read, version, read, [each]) for each in enumerate(inputs)]
        return self.ran(tasks)

    def ran(self, tasks: Sequence[partial[Any]]) -> PartitionsOfMany:
        self.partitions.append(len(tasks))
        return PartitionsOfMany(self, [_twice(task) for task in tasks])


class PartitionsOfMany:
    def __init__(self, way: Many, kept: list[list[on_spark.Kept]]) -> None:
        self.way, self.kept = way, kept

    def facts(self) -> list[list[Any]]:
        told = [
            [value for _, value in on_spark._facts(number, kept)]
            for number, kept in enumerate(self.kept)
        ]
        for value in (value for values in told for value in values):
            if isinstance(value, Failure):
                raise value.error()
        return told

    def then(self, partitions: int, route: Route, work: Work) -> PartitionsOfMany:
        met: list[list[Any]] = [[] for _ in range(partitions)]
        for number, kept in enumerate(self.kept):
            for group, sent in _sent(partial(on_spark._routed, route, number, kept)):
                met[group].append((group, sent))
        for each in met:
            self.way.chance.shuffle(each)
        tasks = [partial(on_spark._worked, work, at, each) for at, each in enumerate(met)]
        return self.way.ran(tasks)

    def release(self) -> None:
        self.kept = []


def _sent(task: partial[Any]) -> list[Any]:
    """What a task gives, and it, as they travel."""
    made = cloudpickle.loads(cloudpickle.dumps(task))
    found: list[Any] = cloudpickle.loads(cloudpickle.dumps(list(made())))
    return found


def _twice(task: partial[Any]) -> list[Any]:
    first, again = _sent(task), _sent(task)
    messages = [[value for _, value in kept if isinstance(value, bytes)] for kept in (first, again)]
    assert messages[0] == messages[1], "a stage that runs again gives other rows"
    return first
