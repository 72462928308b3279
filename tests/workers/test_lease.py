"""The thread that extends leases goes on, whatever becomes of the database and of single jobs."""

from __future__ import annotations

import faulthandler
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from servers import wait_until
from tests.workers.datasets import created
from throwaway import throwaway_stores

from odf_storage.datasets.job_payloads import transform_job
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Job
from odf_workers.jobs.work import budget as lease
from odf_workers.jobs.work.budget import LeaseKeeper, LeaseWatch
from odf_workers.runtime.progress import JobLost

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


@pytest.fixture(autouse=True)
def _threads_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that went on would end the process of the tests when this machine is busy for as long as
    a test calls stuck."""
    monkeypatch.setattr(lease, "IDLE_S", 0.5)
    earlier = set(lease_threads())
    yield
    wait_until(lambda: not set(lease_threads()) - earlier, "the end of the threads")


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that took the limit of a stuck process away; there is none in truth."""
    threads: list[threading.Thread] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *_, **__: None)
    monkeypatch.setattr(
        faulthandler,
        "cancel_dump_traceback_later",
        lambda: threads.append(threading.current_thread()),
    )
    return threads


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
    with LeaseKeeper(jobs, WORKER, lease=LEASE).held([lost, kept]) as progress:
        wait_until(lambda: is_lost(progress[lost.id]), "the end of the lost job")
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
    keeper = LeaseKeeper(stores.jobs, WORKER, lease=LEASE, watching=LeaseWatch(stuck_s=0.4))
    with keeper.held([job]) as progress:
        stores.jobs.cancel(job.id)
        wait_until(lambda: is_lost(progress[job.id]), "the end of the job")
        before = len(armed)
        wait_until(lambda: len(armed) > before + 2, "further looks")


def test_one_thread_serves_the_claims_of_a_worker_and_ends_when_none_comes(
    stores: Stores, unwatched: list[threading.Thread]
) -> None:
    earlier = set(lease_threads())
    keeper = LeaseKeeper(stores.jobs, WORKER, lease=LEASE, watching=LeaseWatch(stuck_s=60.0))
    *some, last = claimed(stores, 3)
    for job in some:
        extended_while_held(keeper, stores, job)
        [thread] = set(lease_threads()) - earlier
        assert thread not in unwatched
    ended = [stores.jobs.get(job.id).lease_until for job in some]
    wait_until(lambda: not thread.is_alive(), "the end of the thread")
    assert unwatched.count(thread) == 1
    assert [stores.jobs.get(job.id).lease_until for job in some] == ended
    extended_while_held(keeper, stores, last)


def test_an_error_in_the_thread_ends_neither_the_process_nor_later_claims(
    stores: Stores, unwatched: list[threading.Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    earlier = set(lease_threads())
    keeper = LeaseKeeper(stores.jobs, WORKER, lease=LEASE, watching=LeaseWatch(stuck_s=60.0))
    first, second = claimed(stores, 2)
    with keeper.held([first]) as progress:
        [thread] = set(lease_threads()) - earlier
        progress.clear()  # the thread finds no progress of its job
        wait_until(lambda: not thread.is_alive(), "the end of the thread")
        assert threading.current_thread() not in unwatched
    assert threading.current_thread() in unwatched
    extended_while_held(keeper, stores, second)


def extended_while_held(keeper: LeaseKeeper, stores: Stores, job: Job) -> None:
    with keeper.held([job]):
        wait_until(lambda: stores.jobs.get(job.id).lease_until != job.lease_until, "an extension")


def lease_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lease"]
