"""The thread that extends leases goes on, whatever becomes of the database and of single jobs."""

from __future__ import annotations

import faulthandler
import time
from datetime import timedelta
from typing import Any

import pytest
from servers import wait_until
from throwaway import throwaway_stores

from odf_node.storage.datasets.job_payloads import transform_job
from odf_node.storage.datasets.job_payloads.transform_job import TransformPayload
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.values import Job
from odf_node.workers.jobs.work import lease
from odf_node.workers.jobs.work.budget import Watching
from odf_node.workers.jobs.work.lease import held
from odf_node.workers.runtime.progress import JobLost
from tests.workers.datasets import created

WORKER = "here"
LEASE = timedelta(seconds=0.6)


class Restarting:
    """A queue whose `get` fails once."""

    def __init__(self, jobs: Any) -> None:
        self._jobs = jobs
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def get(self, job: str) -> Job:
        if not self.failed:
            self.failed += 1
            raise ConnectionError("the database restarts")
        return self._jobs.get(job)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


def claimed(stores: Stores, count: int) -> list[Job]:
    for number in range(count):
        spec = transform_job.job_of(created(stores, number=number).id, TransformPayload())
        stores.jobs.submit(spec)
    found = [
        stores.jobs.claim(WORKER, kinds=[transform_job.KIND], lease=timedelta(seconds=30))
        for _ in range(count)
    ]
    return [job for job in found if job is not None]


def is_lost(progress: Any) -> bool:
    try:
        progress.check()
    except JobLost:
        return True
    return False


def test_a_database_that_fails_when_a_lease_was_lost_does_not_end_the_other_leases(
    stores: Stores,
) -> None:
    lost, kept = claimed(stores, 2)
    stores.jobs.put_back(lost.id, WORKER)
    jobs = Restarting(stores.jobs)
    with held(jobs, [lost, kept], WORKER, lease=LEASE) as progress:
        wait_until(lambda: is_lost(progress[lost.id]), "the end of the lost job", seconds=20)
        assert jobs.failed == 1
        extended = stores.jobs.get(kept.id).lease_until
        wait_until(lambda: stores.jobs.get(kept.id).lease_until != extended, "an extension")
        assert not is_lost(progress[kept.id])


def test_a_worker_whose_jobs_were_all_cancelled_is_still_watched_and_not_taken_for_stuck(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed: list[float] = []
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda *_, **__: armed.append(time.monotonic())
    )
    monkeypatch.setattr(lease, "CANCELLED_S", 0.05)
    [job] = claimed(stores, 1)
    with held(stores.jobs, [job], WORKER, lease=LEASE, watching=Watching(stuck_s=0.4)) as progress:
        stores.jobs.cancel(job.id)
        wait_until(lambda: is_lost(progress[job.id]), "the end of the job", seconds=20)
        before = len(armed)
        wait_until(lambda: len(armed) > before + 2, "further looks", seconds=20)
