"""The choice where a verification runs: small datasets in the worker's threads, others on Spark."""

from __future__ import annotations

from odf_protocol.identity import DatasetId
from odf_storage.datasets.job_payloads.ingest_job import RanReceipt
from odf_storage.datasets.verify.source import ChainSource
from odf_storage.datasets.verify.stages import Runner, in_threads

from ...partitions.here import Here
from ...partitions.objects import can_lend
from ...partitions.port import Way
from ...partitions.usage import Usage
from ..ingest.ways import LARGE, SMALL, is_small, on_spark, ran
from ..work.context import WorkerContext
from .spread import OnPartitions

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
    def usage(self) -> Usage:
        return self._way.usage

    def ran(self) -> RanReceipt | None:
        """Return the receipt of where the checks ran; None if no object was checked."""
        if self._runner is None:
            return None
        splits = self._runner.splits
        return ran(self._context, self.usage, self._size, splits, because=self._because)

    def close(self) -> None:
        self._way.close()
