"""Where a post's stages run: small ones in the worker's process, all others on Spark."""

from __future__ import annotations

from ...engines.port.job_listener import Heard
from ...merge.history import HistoryFiles
from ...merge.table import MERGE
from ...partitions.here import Here
from ...partitions.port import Way
from ...plan.ingest import IngestPlan
from ..work.context import WorkerContext


def way_of(
    context: WorkerContext, plan: IngestPlan, size: int, history: HistoryFiles | None
) -> Way:
    """The way for a file of so many bytes. All of a history that a strategy reads counts as well:
    it would have to fit into memory."""
    if history is not None and MERGE[type(plan.merge)].reads_all:
        size += history.size
    if size < context.ingest.micro_batch_bytes:
        return Here()
    from ...partitions.on_spark import OnSpark

    return OnSpark(context.engines.session, listener=Heard(context.job_progress))
