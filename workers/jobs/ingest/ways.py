"""Where stages run: those of small inputs in the worker's process, all others on Spark."""

from __future__ import annotations

from odf_node.storage.datasets.job_payloads.ingest_job import RanReceipt

from ...engines.port.job_listener import Heard
from ...partitions.here import Here
from ...partitions.port import Way
from ..work.context import WorkerContext


def is_small(context: WorkerContext, size: int) -> bool:
    """Whether so many bytes are for the worker's process."""
    return size < context.ingest.micro_batch_bytes


def way_of(context: WorkerContext, size: int) -> Way:
    """The way for so many bytes."""
    return Here() if is_small(context, size) else on_spark(context)


def on_spark(context: WorkerContext) -> Way:
    """Spark, whose tasks end with the job."""
    from ...partitions.on_spark import OnSpark

    return OnSpark(context.engines.session, listener=Heard(context.job_progress))


def ran(
    context: WorkerContext, way: Way, size: int, splits: int, because: str | None = None
) -> RanReceipt:
    """What there is to be told of a way, once its stages have run; `because`: why a large input was
    one split."""
    return RanReceipt(
        way=way.usage.way,
        bytes=size,
        micro_batch_bytes=context.ingest.micro_batch_bytes,
        splits=splits,
        one_split_because=because,
        spark_jobs=way.usage.jobs,
        tasks=way.usage.tasks,
        shuffle_bytes=way.usage.shuffle_bytes,
        spill_bytes=way.usage.spill_bytes,
    )
