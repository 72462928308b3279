"""The running attempt at a partition, by which the files that a task delivers are named."""

from __future__ import annotations

from pyspark import TaskContext

from ..exchange.executor_side import begin


def name_attempt() -> None:
    """Name the files that this task delivers from now on; outside of a task do nothing."""
    if (task := TaskContext.get()) is not None:
        begin(task.partitionId(), task.attemptNumber())
