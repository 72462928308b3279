"""The stages of a verification as tasks on partitions: each task processes a run of splits.

Tasks only read, so a repeated task gives the same result. Results are returned in the order of the
splits; the rows stay where they were read. Each Spark job consists of a few tasks per processor;
progress and cancellation are handled between these jobs.

The choice where a verification runs: small datasets in the worker's threads, others on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Generic

from odf_protocol.identity import DatasetId
from odf_storage.datasets.job_payloads.ingest_job import RanReceipt
from odf_storage.datasets.verify.source import ChainSource
from odf_storage.datasets.verify.stages import R, Runner, Split, Stage, W, in_threads
from odf_storage.lanes import expect
from odf_storage.stores.ports import ObjectStore

from ...partitions.memory import bounded_memory
from ...partitions.objects import LentObjects, can_lend, lent
from ...partitions.port import Here, StageUsage, Way
from ..ingest.ways import LARGE, SMALL, is_small, on_spark, ran
from ..work.context import WorkerContext

TASK_BYTES = 256 << 20
"""Limit of the bytes that a task reads, unless a single split has more."""
TASK_SPLITS = 32
TASKS_EACH = 4
"""Number of tasks of one Spark job, for each task that can run at the same time."""


@dataclass(frozen=True, slots=True)
class Task(Generic[W]):
    """A run of splits, and the objects that they open."""

    work: tuple[W, ...]
    expected: int
    """Estimated bytes that all tasks in the same process read."""
    objects: LentObjects


class OnPartitions:
    """A `Runner` for the objects of one dataset."""

    def __init__(
        self, way: Way, objects: ObjectStore, dataset: DatasetId, *, size: int, memory: int
    ) -> None:
        """`size` is the size of all objects in bytes; `memory` is the bytes that a task may
        take."""
        self._way, self._objects, self._dataset = way, objects, dataset
        self._size, self._memory = size, memory
        self._most = min(TASK_BYTES, size // (way.width * TASKS_EACH))
        self.width = way.width
        self.splits = 0
        """Number of splits processed so far."""

    def run(self, stage: Stage[W, R], splits: Iterable[Split[W]]) -> Iterator[R]:
        """Run the stage on all splits, like `Runner.run`.

        Raises:
            StageFailed: a task could not be run.
            QueryTooSlow, JobLost, …: the job was ended.
        """
        runs = self._runs(splits)
        while tasks := [self._task(each) for each in islice(runs, self.width * TASKS_EACH)]:
            partitions = self._way.read(tasks, partial(run_task, stage, self._memory))
            facts = partitions.facts()
            partitions.release()
            for found in facts:
                self.splits += len(found)
                yield from found

    def _runs(self, splits: Iterable[Split[W]]) -> Iterator[list[Split[W]]]:
        """Group the splits by task, in their order."""
        run: list[Split[W]] = []
        size = 0
        for split in splits:
            if run and (size + split.size > self._most or len(run) == TASK_SPLITS):
                yield run
                run, size = [], 0
            run.append(split)
            size += split.size
        if run:
            yield run

    def _task(self, run: list[Split[W]]) -> Task[W]:
        names = ((each.kind, each.hash) for split in run for each in split.objects)
        return Task(
            tuple(split.work for split in run),
            self._size // self.width,
            lent(self._way, self._objects, self._dataset, names),
        )


def run_task(stage: Stage[W, R], memory: int, task: Task[W]) -> Iterator[R]:
    """Yield the result of the stage for each split of the task."""
    expect(task.expected)
    with bounded_memory(memory):
        for work in task.work:
            yield stage(task.objects, work)


OUT_OF_REACH = "a local Spark cannot read objects in a bucket"


class Placed:
    """Chooses the runner for one dataset of the node (a `Where`), and reports the choice
    afterwards."""

    def __init__(self, context: WorkerContext, dataset: DatasetId) -> None:
        self._context, self._dataset = context, dataset
        self._way: Way = Here()
        self._runner: Runner | None = None
        self._size, self._because = 0, SMALL

    def __call__(self, source: ChainSource, size: int) -> Runner:
        """Return a runner on Spark, if there is much to read and its tasks can read the objects in
        place."""
        self._size = size
        objects = self._context.objects
        if is_small(self._context, size) or not can_lend(objects):
            self._because = SMALL if is_small(self._context, size) else OUT_OF_REACH
            self._runner = in_threads(source, size)
            return self._runner
        self._because = LARGE
        self._way = on_spark(self._context)
        memory = self._context.verify_task_bytes
        self._runner = OnPartitions(self._way, objects, self._dataset, size=size, memory=memory)
        return self._runner

    @property
    def usage(self) -> StageUsage:
        return self._way.usage

    def ran(self) -> RanReceipt | None:
        """Return the receipt of where the checks ran; None if no object was checked."""
        if self._runner is None:
            return None
        splits = self._runner.splits
        return ran(self._context, self.usage, self._size, splits, because=self._because)

    def close(self) -> None:
        self._way.close()
