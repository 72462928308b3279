"""What stages took of Spark, as it counts it: for the receipt of a job."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from py4j.protocol import Py4JJavaError

MAX_WAIT_MILLIS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Where they ran, jobs and tasks, and bytes: of rows between tasks, and of what went to disk
    because memory was short."""

    way: Literal["process", "spark"] = "process"
    jobs: int = 0
    tasks: int = 0
    shuffle_bytes: int = 0
    spill_bytes: int = 0
    page: str | None = None
    """Spark's own about it, if it has one."""

    def with_jobs(self, spark: Any, group: str) -> Usage:
        """With the jobs of a group, which have ended."""
        context = spark._jsc.sc()
        # Spark counts what tasks report by a queue of its own, which a busy machine empties late.
        # A queue that stays full makes the figures too small, which is no reason to fail a job.
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
