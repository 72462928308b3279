"""The resources that jobs used, by Spark's own counters."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from .usage import Usage

MAX_WAIT_MILLIS: Final = 10_000


def with_jobs(usage: Usage, spark: Any, group: str) -> Usage:
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
