"""The choice where stages run, by the size of their input: in the worker's process, or on Spark.

On Spark, one task runs a Batch that is a single partition, and the tasks of several datasets'
Batches form one job, because starting a job takes long compared with processing a few rows. Any
other Batch has separate jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odf_storage.datasets.job_payloads.ingest_job import RanReceipt

from ...engines.port.job_listener import Heard, HeardOfAll
from ...engines.port.port import EngineListener
from ...partitions.port import Here, StageUsage, Way
from ...readers.formats.splits import Splits
from ...runtime.progress import JobProgress
from ...stages.batch import Batch, BatchRows, run_as_tasks
from ...stages.pipeline import fits_one_task
from ..work.context import WorkerContext


def is_small(context: WorkerContext, size: int) -> bool:
    """Whether an input of this size in bytes is processed in the worker's process."""
    return size < context.ingest.micro_batch_bytes


def way_of(context: WorkerContext, size: int) -> Way:
    """Return the way for an input of this size in bytes."""
    return Here() if is_small(context, size) else on_spark(context)


def on_spark(context: WorkerContext) -> Way:
    """Return the way on Spark, whose tasks end when the job is cancelled or lost."""
    return _spark(context, Heard(context.job_progress))


def way_of_tasks(context: WorkerContext, jobs: Sequence[JobProgress]) -> Way:
    """Return the way for Batches of several of the node's jobs; it ends when all of these are
    lost."""
    return _spark(context, HeardOfAll(jobs))


def _spark(context: WorkerContext, listener: EngineListener) -> Way:
    from ...partitions.on_spark import OnSpark

    return OnSpark(context.engines.session, listener=listener)


def is_one_task(way: Way, size: int, found: Splits) -> bool:
    """Whether one Spark task runs the whole Batch. `size` is in bytes, and includes the history if
    all of it is read."""
    return not way.in_process and len(found.splits) <= 1 and fits_one_task(size)


def run_tasks(way: Way, batches: Sequence[Batch]) -> list[BatchRows]:
    """Run Batches of one partition each by one Spark job, with a task for each processor, because
    starting a task takes long, too.

    Raises:
        StageFailed: one of them, or all, could not be run.
    """
    share = -(-len(batches) // way.width) or 1
    shares = [batches[at : at + share] for at in range(0, len(batches), share)]
    try:
        told: list[list[BatchRows]] = way.read(shares, run_as_tasks).facts()
    finally:
        way.close()
    usage = StageUsage(way="spark", jobs=1, tasks=1, page=way.usage.page)
    return [replace(found, usage=usage) for each in told for found in each]


SMALL = "fewer bytes than microBatchBytes"
LARGE = "not fewer bytes than microBatchBytes"
ONE_TASK = f"{LARGE}, and few enough for one task"
"""Reasons for the choice, as receipts report them. They contain no figures: the receipt of several
fetches lists each reason once."""


def ran(
    context: WorkerContext,
    usage: StageUsage,
    size: int,
    splits: int,
    *,
    because: str,
    one_split_because: str | None = None,
    preprocessed_bytes: int | None = None,
) -> RanReceipt:
    """Return the part of the receipt about where the stages ran, and why there."""
    return RanReceipt(
        way=usage.way,
        because=because,
        bytes=size,
        micro_batch_bytes=context.ingest.micro_batch_bytes,
        splits=splits,
        one_split_because=one_split_because,
        preprocessed_bytes=preprocessed_bytes,
        spark_jobs=usage.jobs,
        tasks=usage.tasks,
        shuffle_bytes=usage.shuffle_bytes,
        spill_bytes=usage.spill_bytes,
        spark_page=usage.page,
    )
