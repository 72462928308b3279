"""What stages took of Spark, as it counts it: for the receipt of a job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal


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
        tracker, store = spark.statusTracker(), spark._jsc.sc().statusStore()
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
