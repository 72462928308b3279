"""Many partitions without Spark: its stages, its messages and its pickling, in this thread."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pyspark import cloudpickle

from odf_workers.partitions import on_spark
from odf_workers.partitions.messages import Failure
from odf_workers.partitions.port import File, LinkSpan, Outbox, Read, Route, StageUsage, T, Work


class Many:
    """Every stage runs twice, as it may on Spark, and must give the same messages; what tasks send
    each other arrives in any order."""

    name: Literal["spark"] = "spark"
    in_process = False
    usage = StageUsage()

    def __init__(self, width: int, chance: random.Random) -> None:
        self.width, self.chance = width, chance
        self.partition_bytes = chance.choice([1000, 10_000])
        self.partitions: list[int] = []
        """Of each stage that ran."""

    def file(self, path: Path, *, lasting: str | None = None) -> File:
        return path

    def spans(self, path: Path, spans: Sequence[LinkSpan | None]) -> Sequence[File]:
        return [path] * len(spans)

    def outbox(self, folder: Path, partitions: int) -> Outbox:
        folder.mkdir(parents=True, exist_ok=True)
        return Outbox(folder=folder)

    def close(self) -> None:
        """Rows go with the partitions."""

    def read(self, inputs: Sequence[T], read: Read[T]) -> PartitionsOfMany:
        stage = partial(on_spark._read, on_spark._version(), read)
        return self.ran(stage, [[each] for each in enumerate(inputs)])

    def ran(self, stage: Any, given: Sequence[Any]) -> PartitionsOfMany:
        self.partitions.append(len(given))
        return PartitionsOfMany(self, [_twice(stage, at, each) for at, each in enumerate(given)])


class Told:
    """The accumulator of a stage."""

    def __init__(self) -> None:
        self.value: on_spark.Facts = {}

    def add(self, facts: on_spark.Facts) -> None:
        self.value |= facts


class PartitionsOfMany:
    def __init__(self, way: Many, ran: Sequence[tuple[list[bytes], list[Any]]]) -> None:
        self.way = way
        self.kept, self.told = [kept for kept, _ in ran], [told for _, told in ran]

    def facts(self) -> list[list[Any]]:
        for value in (value for values in self.told for value in values):
            if isinstance(value, Failure):
                raise value.error()
        return self.told

    def then(self, partitions: int, route: Route, work: Work) -> PartitionsOfMany:
        met: list[list[Any]] = [[] for _ in range(partitions)]
        for number, kept in enumerate(self.kept):
            for group, sent in _sent(
                partial(_listed, partial(on_spark._routed, route, number, kept))
            ):
                met[group].append((group, sent))
        for each in met:
            self.way.chance.shuffle(each)
        return self.way.ran(partial(on_spark._worked, on_spark._version(), work), met)

    def release(self) -> None:
        self.kept = []


def _listed(task: partial[Any]) -> list[Any]:
    return list(task())


def _sent(task: partial[Any]) -> Any:
    """What a task gives, and it, as they travel."""
    made = cloudpickle.loads(cloudpickle.dumps(task))
    return cloudpickle.loads(cloudpickle.dumps(made()))


def _ran(stage: Any, number: int, given: Any) -> tuple[list[bytes], list[Any]]:
    told = Told()
    kept = list(stage(told, number, given))
    return kept, told.value[number]


def _twice(stage: Any, number: int, given: Any) -> tuple[list[bytes], list[Any]]:
    task = partial(_ran, stage, number, given)
    first, again = _sent(task), _sent(task)
    assert first[0] == again[0], "a stage that runs again gives other rows"
    return first
