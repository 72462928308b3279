"""Where a post's stages run: small ones in the worker's process, all others on Spark."""

from __future__ import annotations

from odf_node.storage.datasets.job_payloads.ingest_job import RanReceipt

from ...engines.port.job_listener import Heard
from ...partitions.here import Here
from ...partitions.port import Way
from ...readers.splits import Splits
from ..work.context import WorkerContext


def way_of(context: WorkerContext, size: int) -> Way:
    """The way for so many bytes."""
    if size < context.ingest.micro_batch_bytes:
        return Here()
    from ...partitions.on_spark import OnSpark

    return OnSpark(context.engines.session, listener=Heard(context.job_progress))


def ran(context: WorkerContext, way: Way, size: int, found: Splits) -> RanReceipt:
    """What there is to be told of a way, once its stages have run."""
    return RanReceipt(
        way=way.usage.way,
        bytes=size,
        micro_batch_bytes=context.ingest.micro_batch_bytes,
        splits=len(found.splits),
        one_split_because=found.whole_because,
        spark_jobs=way.usage.jobs,
        tasks=way.usage.tasks,
        shuffle_bytes=way.usage.shuffle_bytes,
        spill_bytes=way.usage.spill_bytes,
    )
