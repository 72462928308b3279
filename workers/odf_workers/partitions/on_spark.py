"""Partitions on Spark's executors.

Rows travel as messages (`messages.py`), whose content Spark does not know. It runs stages as tasks,
repeats a task that fails or loses its executor, transfers messages between tasks with its shuffle,
and stores the result of a stage on the disks of its executors. A repeated stage gives the same
rows, since a partition's messages are sorted before the stage receives them. The facts of a stage
reach the worker through an accumulator, apart from the rows: otherwise Python would have to read
all rows to find them.

The resources that jobs used, by Spark's own counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import Accumulator, StorageLevel, accumulators
from pyspark.errors import PySparkException

from odf_protocol.errors import NodeError

from ..engines.exchange import worker_side
from ..engines.exchange.worker_side import exchange_of
from ..engines.port.port import QUIET, EngineListener, QueryTooSlow
from ..engines.spark.frames import name_attempt
from ..engines.spark.jvm import shown
from ..engines.spark.limit import limited
from ..engines.spark.plan import reason
from ..engines.spark.session import Spark
from .memory import of_spark
from .messages import Failure, StageFailed, batch_of, gathered, message
from .port import File, Outbox, Output, Read, Route, Spans, StageUsage, T, Work

MAX_WAIT_MILLIS: Final = 10_000


def with_jobs(usage: StageUsage, spark: Any, group: str) -> StageUsage:
    """Return the usage with the ended jobs of a group added."""
    context = spark._jsc.sc()
    # Spark counts reports of tasks through a queue, which it empties late on a busy machine. If
    # the queue stays full, the figures are too small, but the job must not fail for that.
    with suppress(Py4JJavaError):
        context.listenerBus().waitUntilEmpty(MAX_WAIT_MILLIS)
    tracker, store = spark.statusTracker(), context.statusStore()
    jobs = tracker.getJobIdsForGroup(group)
    stages = {
        stage
        for job in jobs
        if (info := tracker.getJobInfo(job)) is not None
        for stage in info.stageIds
    }
    ran = [store.lastStageAttempt(stage) for stage in sorted(stages)]
    return replace(
        usage,
        jobs=usage.jobs + len(jobs),
        tasks=usage.tasks + sum(each.numCompleteTasks() for each in ran),
        shuffle_bytes=usage.shuffle_bytes + sum(each.shuffleWriteBytes() for each in ran),
        spill_bytes=usage.spill_bytes + sum(each.diskBytesSpilled() for each in ran),
        page=spark.uiWebUrl,
    )


STAGE_SECONDS = 86_400.0
"""Time limit of a stage in seconds; the budget of its job may end it earlier."""


Facts = dict[int, list[Any]]
"""Facts by the number of the partition."""


class _ByPartition(accumulators.AccumulatorParam[Facts]):  # type: ignore[misc]
    """Collects facts of partitions. A partition that ran twice reports the same facts twice."""

    def zero(self, value: Facts) -> Facts:  # noqa: ARG002
        return {}

    def addInPlace(self, value1: Facts, value2: Facts) -> Facts:  # noqa: N802
        return value1 | value2


class OnSpark:
    """Runs stages as tasks of a Spark session, until the listener stops them."""

    in_process = False

    def __init__(
        self, spark: Spark, *, seconds: float = STAGE_SECONDS, listener: EngineListener = QUIET
    ) -> None:
        self._spark, self._seconds, self._listener = spark, seconds, listener
        self.usage = StageUsage(way="spark")
        self._kept: list[Any] = []

    @property
    def width(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    @cached_property
    def partition_bytes(self) -> int:
        return of_spark(self._spark.sparkContext)

    def file(self, path: Path, *, lasting: str | None = None) -> File:
        if (url := exchange_of()) is None:
            return shown([path])[0]
        if lasting is None:
            return worker_side.lend(url, path)
        return worker_side.lend_lasting(url, path, lasting)

    def spans(self, path: Path, parts: Sequence[Spans | None]) -> Sequence[File]:
        if (url := exchange_of()) is not None:
            return worker_side.lend_spans(url, path, parts)
        return shown([path]) * len(parts)

    def outbox(self, folder: Path, partitions: int) -> Outbox:
        folder.mkdir(parents=True, exist_ok=True)
        if (url := exchange_of()) is None:
            return Outbox(folder=folder)
        return worker_side.outbox(url, folder, partitions)

    def close(self) -> None:
        while self._kept:
            with suppress(Py4JError, OSError):  # Spark is gone, and the rows with it
                self._kept.pop().unpersist()

    def kept(self, rows: Any) -> Any:
        """Keep the elements of an RDD on disk from the time they are computed."""
        self._kept.append(rows)
        return rows.persist(StorageLevel.DISK_ONLY)

    def drop(self, rows: Any) -> None:
        """Stop keeping the elements of an RDD; unpersist only once, since Spark reports an error
        the second time."""
        if any(each is rows for each in self._kept):
            self._kept = [each for each in self._kept if each is not rows]
            rows.unpersist()

    def read(self, inputs: Sequence[T], read: Read[T]) -> PartitionsOnSpark:
        spark = self._spark.sparkContext
        given = spark.parallelize(list(enumerate(inputs)), max(1, len(inputs)))
        return PartitionsOnSpark(given, partial(_read, _version(), read), self)

    def told(self) -> Accumulator[Facts]:
        """Return a new accumulator for the facts of a stage."""
        return self._spark.sparkContext.accumulator({}, _ByPartition())

    def compute(self, rows: Any) -> None:
        """Let Spark compute all elements of an RDD now.

        Raises:
            QueryTooSlow: it took too long.
            JobLost, JobOverBudget: the job was ended.
            StageFailed.
        """
        try:
            with limited(self._spark, self._seconds, self._listener) as group:
                try:
                    rows._jrdd.count()  # in the JVM: Python would receive all of them
                except (PySparkException, Py4JJavaError) as bad:
                    raise StageFailed(f"Spark could not run a stage: {reason(bad)}") from bad
        except QueryTooSlow:
            self._listener.progress()  # raises the error that ended the job
            raise
        self.usage = with_jobs(self.usage, self._spark.sparkContext, group)


class PartitionsOnSpark:
    """Messages that Spark computes and keeps when their facts are first requested."""

    def __init__(self, given: Any, stage: Callable[..., Iterator[bytes]], way: OnSpark) -> None:
        self._way, self._told = way, way.told()
        work = partial(stage, self._told)
        self.rows = way.kept(given.mapPartitionsWithIndex(work, preservesPartitioning=True))
        self._facts: list[list[Any]] | None = None

    def facts(self) -> list[list[Any]]:
        if self._facts is None:
            try:
                self._way.compute(self.rows)
            finally:
                self._forget()
            told = self._told.value
            found = [told[number] for number in range(self.rows.getNumPartitions())]
            for value in (value for values in found for value in values):
                if isinstance(value, Failure):
                    raise value.error()
            self._facts = found
        return self._facts

    def then(self, partitions: int, route: Route, work: Work) -> PartitionsOnSpark:
        routed = self.rows.mapPartitionsWithIndex(partial(_routed, route))
        met = routed.partitionBy(partitions, _own)
        return PartitionsOnSpark(met, partial(_worked, _version(), work), self._way)

    def _forget(self) -> None:
        """Remove the accumulator, which PySpark would keep for ever. Facts of tasks that run again
        are then ignored."""
        accumulators._accumulatorRegistry.pop(self._told.aid, None)

    def release(self) -> None:
        self._forget()
        self._way.drop(self.rows)


def _own(group: int) -> int:
    return group


@cache
def _version() -> str:
    return version("odf-node")


def _read(
    wanted: str,
    read: Read[T],
    told: Accumulator[Facts],
    number: int,
    inputs: Iterable[tuple[int, T]],
) -> Iterator[bytes]:
    return _output(wanted, told, number, (found for _, each in inputs for found in read(each)))


def _worked(
    wanted: str,
    work: Work,
    told: Accumulator[Facts],
    number: int,
    met: Iterable[tuple[int, tuple[int, int, bytes]]],
) -> Iterator[bytes]:
    ordered = sorted((each for _, each in met), key=lambda each: each[:2])
    batches = (batch_of(content) for _, _, content in ordered)
    return _output(wanted, told, number, work(number, batches))


def _output(wanted: str, told: Accumulator[Facts], number: int, output: Output) -> Iterator[bytes]:
    """Return messages of the rows. Report the facts after the rows; if the stage raises, or this
    executor has another version of the package than the one wanted, report only the error."""
    facts: list[Any] = []
    name_attempt()
    try:
        _check_version(wanted)
        yield from map(message, gathered(_batches(output, facts)))
    except NodeError as bad:
        facts = [Failure.of(bad)]
    told.add({number: facts})


def _check_version(wanted: str) -> None:
    """Raise `StageFailed` unless this process has that version of the package."""
    if wanted != _version():
        raise StageFailed(
            f"the executor has version {_version()} of this package, and the worker has {wanted}: "
            "install the same one on both"
        )


def _batches(output: Output, facts: list[Any]) -> Iterator[pa.RecordBatch]:
    for each in output:
        if isinstance(each, pa.RecordBatch):
            if each.num_rows:
                yield each
        else:
            facts.append(each)


def _routed(
    route: Route, number: int, kept: Iterable[bytes]
) -> Iterator[tuple[int, tuple[int, int, bytes]]]:
    """Return messages with the partition of each in the next stage. One that is routed as it is
    needs not be written again."""
    batch, content = None, b""

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal batch, content
        for content in kept:
            batch = batch_of(content)
            yield batch

    for at, (group, rows) in enumerate(route(number, batches())):
        if rows.num_rows:
            yield group, (number, at, content if rows is batch else message(rows))
