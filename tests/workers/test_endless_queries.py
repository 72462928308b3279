"""A query that never ends is ended by its canceller or its limits, and the worker goes on."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workers.datasets import bench_without_engine, created, ndjson, submit
from tests.workers.engine.requests import sql
from throwaway import throwaway_stores

from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import Failed, JobId, JobStatus, Succeeded
from odf_workers.engines.datafusion.engine import DataFusionEngine, DataFusionLimits
from odf_workers.jobs.work.budget import LeaseKeeper
from odf_workers.program.loop import Worker
from odf_workers.runtime.progress import JobLost

ENDLESS = "select sum(a.n * b.n) as n from input a, input b, input c, input d"
HUGE = "select length(repeat('x', 2000000000)) as n from input"
PATIENCE_S = 60.0


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


def worker_of(stores: Stores, scratch: Path, **limits: Any) -> Worker:
    bench = bench_without_engine(stores, scratch)
    engine = DataFusionEngine(DataFusionLimits(**limits))
    bench = replace(bench, engines=replace(bench.engines, first=engine))
    return Worker(
        stores=stores, context=bench, name="w", lease=timedelta(hours=1), longest_pause_s=0.04
    )


def posted(stores: Stores, number: int, query: str) -> JobId:
    source = AddPushSource(
        source_name="default",
        read=ReadStepNdJson(),
        preprocess=sql(query, engine="datafusion"),
        merge=MergeStrategyAppend(),
    )
    dataset = created(stores, number=number, source=source)
    return submit(stores, dataset, ndjson([{"n": n} for n in range(2_000)]))


def waited(stores: Stores, job: JobId, *statuses: JobStatus) -> JobStatus:
    deadline = time.monotonic() + PATIENCE_S
    while (found := stores.jobs.get(job).status) not in statuses and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def test_a_cancelled_query_of_one_batch_ends_and_the_next_job_runs(
    stores: Stores, tmp_path: Path
) -> None:
    worker = worker_of(stores, tmp_path)
    endless = posted(stores, 1, ENDLESS)
    good = posted(stores, 2, "select n + 1 as n from input")
    thread = threading.Thread(target=worker.work, kwargs={"once": True})
    thread.start()
    try:
        assert waited(stores, endless, JobStatus.RUNNING) is JobStatus.RUNNING
        stores.jobs.cancel(endless)
        done = waited(stores, good, JobStatus.SUCCEEDED, JobStatus.FAILED)
    finally:
        worker.stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert done is JobStatus.SUCCEEDED
    assert stores.jobs.get(endless).status is JobStatus.CANCELLED


@pytest.mark.parametrize(
    ("query", "setting"),
    [(ENDLESS, "ODF_WORKER_QUERY_S"), (HUGE, "ODF_WORKER_DATAFUSION_PROCESS_BYTES")],
)
def test_a_query_beyond_its_limits_fails_its_own_job_at_once(
    query: str, setting: str, stores: Stores, tmp_path: Path
) -> None:
    worker = worker_of(stores, tmp_path, seconds=3.0, process_bytes=256 << 20)
    bad = posted(stores, 1, query)
    good = posted(stores, 2, "select n + 1 as n from input")
    worker.work(once=True)
    job = stores.jobs.get(bad)
    assert isinstance(job.outcome, Failed)
    assert job.attempt == 1
    assert setting in job.outcome.message
    assert isinstance(stores.jobs.get(good).outcome, Succeeded)


def test_a_worker_notices_that_a_job_was_cancelled_long_before_its_lease_is_due(
    stores: Stores, tmp_path: Path
) -> None:
    job = posted(stores, 1, ENDLESS)
    (claimed,) = stores.jobs.claim_groups("w", ["ingest"], lease=timedelta(hours=1))[0]
    stopped = threading.Event()
    with LeaseKeeper(stores.jobs, "w", lease=timedelta(hours=1)).held([claimed]) as meters:
        meters[job].stops(stopped.set)
        stores.jobs.cancel(job)
        assert stopped.wait(PATIENCE_S)
        with pytest.raises(JobLost):
            meters[job].check()
