"""Parts for jobs, schedules, and the removal of old records."""

from __future__ import annotations

from functools import cached_property

from ..jobs.job_watch import JobWatch
from ..jobs.jobs import Jobs
from ..jobs.waiting import Waiting
from ..processes.supervisor import WorkerHealth
from ..schedules.clock import Pruning
from ..schedules.schedules import Scheduling
from ..verify.verify import Verifying
from .queries import QueryParts


class JobParts(QueryParts):
    """Parts for jobs, schedules, and the removal of old records."""

    @cached_property
    def watch(self) -> JobWatch:
        return JobWatch(self.stores.jobs, self.stores.wake_up, pause_s=self.settings.poll_s)

    @cached_property
    def waiting(self) -> Waiting:
        return Waiting(self.watch, self.settings.ingest_wait_s)

    @cached_property
    def worker_health(self) -> WorkerHealth:
        return WorkerHealth()

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.stores.jobs, self.access)

    @cached_property
    def verifying(self) -> Verifying:
        return Verifying(self.stores.jobs, self.stores, self.access)

    @cached_property
    def scheduling(self) -> Scheduling:
        return Scheduling(
            schedules=self.stores.schedules,
            registry=self.stores.registry,
            mirrors=self.stores.mirrors,
            everything_is_read=self.access.everything_is_read,
            clock=self.clock,
            random=self.random,
        )

    @cached_property
    def pruning(self) -> Pruning:
        return Pruning(
            jobs=self.stores.jobs,
            damages=self.stores.damages,
            devices=self.stores.devices,
            queries=self.background_queries,
            job_keep_s=self.settings.job_keep_s,
            rejected_rows_keep_s=self.settings.rejected_rows_keep_s,
            clock=self.clock,
        )
