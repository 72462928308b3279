"""A job takes so much time and memory of its worker, and no more; others have their turn."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workers.datasets import bench_without_engine, created
from throwaway import throwaway_stores

import odf_workers.jobs.work.budget
import odf_workers.program.loop
from odf_protocol.metadata.sources import ReadStepNdJson
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import ingest_job, transform_job
from odf_storage.datasets.job_payloads.ingest_job import IngestPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Failed, JobId, JobSpec, JobStatus, Succeeded
from odf_workers.jobs.ingest import claim
from odf_workers.jobs.ingest import round as rounds
from odf_workers.jobs.work.budget import Budget, bounded, memory_taken
from odf_workers.program.handlers import JobContext
from odf_workers.program.loop import Worker

LEASE = timedelta(seconds=30)
Run = Callable[[JobContext], object]


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


def worker_of(stores: Stores, scratch: Path, budget: Budget) -> Worker:
    bench = bench_without_engine(stores, scratch)
    return Worker(
        stores=stores,
        context=bench,
        name="here",
        lease=LEASE,
        longest_pause_s=0.01,
        budget=budget,
    )


def submitted(stores: Stores, monkeypatch: pytest.MonkeyPatch, run: Run) -> JobId:
    """A job that runs this."""

    def handler(context: JobContext, _: Any) -> dict[str, Any]:
        run(context)
        return {}

    monkeypatch.setattr(odf_workers.program.loop, "HANDLERS", {transform_job.KIND: handler})
    dataset = created(stores)
    return stores.jobs.submit(transform_job.job_of(dataset.id, TransformPayload()))


def refusal(stores: Stores, job: JobId) -> Failed:
    outcome = stores.jobs.get(job).outcome
    assert isinstance(outcome, Failed), outcome
    return outcome


def test_a_job_beyond_its_time_ends_at_its_next_batch_and_is_not_begun_again(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long(context: JobContext) -> None:
        for _ in range(3_000):
            context.worker.job_progress.check()
            time.sleep(0.01)

    job = submitted(stores, monkeypatch, long)
    worker_of(stores, tmp_path, Budget(seconds=0.2)).work(once=True)
    told = refusal(stores, job)
    assert (told.error, told.branch) == ("JobTooLong", "LimitExceeded")
    assert told.facts["setting"] == "ODF_WORKER_JOB_S"
    assert stores.jobs.get(job).attempt == 1


def test_a_job_beyond_its_memory_ends_at_its_next_batch(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bytes] = []

    def hungry(context: JobContext) -> None:
        while len(held) < 40:
            held.append(os.urandom(4 << 20))
            time.sleep(0.05)
            context.worker.job_progress.check()

    job = submitted(stores, monkeypatch, hungry)
    worker = worker_of(stores, tmp_path, Budget(memory=memory_taken() + (32 << 20)))
    worker.work(once=True)
    told = refusal(stores, job)
    assert (told.error, told.facts["setting"]) == ("JobTooLarge", "ODF_WORKER_JOB_MEMORY_BYTES")
    assert len(held) < 40
    assert worker.stop.is_set(), "a worker that keeps the memory of its jobs ends"


def test_a_job_that_does_not_listen_ends_with_its_worker_and_is_not_begun_again(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, code = threading.Event(), []

    def exits(number: int) -> None:
        code.append(number)
        ended.set()

    monkeypatch.setattr(odf_workers.jobs.work.budget.os, "_exit", exits)
    monkeypatch.setattr(odf_workers.jobs.work.budget, "GRACE_S", 0.1)
    job = submitted(stores, monkeypatch, lambda _: bool(ended.wait(30)) and None)
    worker_of(stores, tmp_path, Budget(seconds=0.1)).work(once=True)
    assert code[0] == odf_workers.jobs.work.budget.OVER_BUDGET
    assert refusal(stores, job).error == "JobTooLong"


PROCESS = """
import sys, time
from datetime import timedelta
from pathlib import Path
import odf_workers.jobs.work.budget, odf_workers.program.loop
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.job_payloads import transform_job
from tests.workers.datasets import bench_without_engine
from odf_workers.jobs.work.budget import Budget
from odf_workers.program.loop import Worker

def handler(context, job):
    held = []
    while "large" in job.spec.payload:
        held.append(b"x" * (16 << 20))
    if "stuck" in job.spec.payload:
        sum(iter(int, 1))  # no other thread gets the interpreter
    return {}

odf_workers.jobs.work.budget.GRACE_S = 0.2
odf_workers.program.loop.HANDLERS = {transform_job.KIND: handler}
stores = open_stores(StoreSettings(data=Path(sys.argv[1])))
Worker(
    stores=stores,
    context=bench_without_engine(stores, Path(sys.argv[1])),
    name="here",
    lease=timedelta(seconds=30),
    longest_pause_s=0.01,
    budget=Budget(memory=600 << 20),
    stuck_s=5,
).work(once=True)
"""


@pytest.mark.parametrize(("kind", "error"), [("large", "JobTooLarge"), ("stuck", None)])
def test_what_a_process_cannot_interrupt_ends_with_it_and_others_go_on(
    kind: str, error: str | None, tmp_path: Path
) -> None:
    from odf_storage.datasets.node.open_stores import StoreSettings, open_stores

    stores = open_stores(StoreSettings(data=tmp_path))
    dataset, other = (created(stores, number=number) for number in (1, 2))
    bad = stores.jobs.submit(
        JobSpec(transform_job.KIND, dataset.id, {kind: 1}, lock=str(dataset.id))
    )
    good = stores.jobs.submit(JobSpec(transform_job.KIND, other.id, {}, lock=str(other.id)))
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    first = subprocess.run(command, timeout=120, check=False, capture_output=True, text=True)
    assert first.returncode == (1 if error is None else odf_workers.jobs.work.budget.OVER_BUDGET), (
        first.stderr
    )
    assert subprocess.run(command, timeout=120, check=False).returncode == 0
    assert isinstance(stores.jobs.get(good).outcome, Succeeded)
    if error is not None:
        assert refusal(stores, bad).error == error
    stores.close()


def test_a_group_that_had_its_turn_gives_the_rest_back(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "TURN_S", 0.0)
    monkeypatch.setattr(rounds, "ROUND_S", 0.0)
    dataset = created(stores, read=ReadStepNdJson(ddl_schema=("n BIGINT",)))
    body = b'{"n": 1}\n'
    payload = IngestPayload(upload=str(Multihash.of(body)), dry_run=True)
    spec = JobSpec(
        ingest_job.KIND, dataset.id, ingest_job.to_json(payload), lock=str(dataset.id), body=body
    )
    jobs = [stores.jobs.submit(spec) for _ in range(3)]
    worker = worker_of(stores, tmp_path, Budget())
    worker.run(worker._claim())
    told = [stores.jobs.get(job) for job in jobs]
    assert [job.status for job in told] == [
        JobStatus.SUCCEEDED,
        JobStatus.WAITING,
        JobStatus.WAITING,
    ]
    assert [job.attempt for job in told] == [1, 0, 0]
    worker.work(once=True)
    assert {stores.jobs.get(job).status for job in jobs} == {JobStatus.SUCCEEDED}


def test_the_budget_stays_below_what_the_control_group_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(odf_workers.jobs.work.budget, "_CGROUPS", (str(limit), "/nowhere"))
    for text, expected in (("1000\n", 800), ("max\n", 4000), ("100000\n", 4000)):
        limit.write_text(text)
        assert bounded(1.0, 4000).memory == expected
