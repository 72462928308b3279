"""The resources that stages used on Spark, by its own counters: for the receipt of a job."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from py4j.protocol import Py4JJavaError

MAX_WAIT_MILLIS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Where stages ran, the number of jobs and tasks, and bytes: shuffled between tasks, and
    spilled by Spark's sort of a shuffle, which takes place for more than 200 partitions only."""

    way: Literal["process", "spark"] = "process"
    jobs: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    spill_bytes: int = 0
    page: str | None = None
    """URL of Spark's page about its jobs, if it serves one."""

    def with_jobs(self, spark: Any, group: str) -> Usage:
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
            self,
            jobs=self.jobs + len(jobs),
            tasks=self.tasks + sum(each.numCompleteTasks() for each in ran),
            shuffle_bytes=self.shuffle_bytes + sum(each.shuffleWriteBytes() for each in ran),
            spill_bytes=self.spill_bytes + sum(each.diskBytesSpilled() for each in ran),
            page=spark.uiWebUrl,
        )
