"""A job that ends Spark rests, others are run with another Spark, and it is given up in the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from py4j.protocol import Py4JError
from tests.workers.datasets import bench_without_engine, created, ndjson, submit
from throwaway import throwaway_stores

import odf_workers.program.loop
from odf_protocol.metadata.events import AddPushSource, SqlQueryStep, TransformSql
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson
from odf_storage.datasets.job_payloads import transform_job
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.stores.ports.values import Failed, JobStatus, Succeeded
from odf_workers.engines.exchange import worker_side
from odf_workers.engines.spark import jvm
from odf_workers.partitions.messages import StageFailed
from odf_workers.program.handlers import JobContext
from odf_workers.program.loop import EngineGone, Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEASE = timedelta(seconds=30)


class Child:
    """A process of Spark that ended with a code, or not at all."""

    def __init__(self, code: int | None) -> None:
        self.code, self.pid = code, 0

    def wait(self, patience_s: float) -> int:
        if self.code is None:
            raise subprocess.TimeoutExpired("java", patience_s)
        return self.code


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (3, "it ran out of memory"),
        (52, "it ran out of memory"),
        (-9, "it was killed, as systems do that run out of memory"),
        (134, "it ended with code 134"),
        (None, None),
    ],
)
def test_how_spark_ended_is_told(
    code: int | None, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = SimpleNamespace(proc=Child(code))
    context = SimpleNamespace(_gateway=gateway, _active_spark_context=None)
    monkeypatch.setattr(jvm, "SparkContext", context)
    assert jvm.how_it_ended(0) == told


@pytest.mark.spark
def test_a_spark_that_was_ended_in_a_java_that_lives_is_told(spark: SparkSession) -> None:
    assert jvm.how_it_ended(0) is None
    spark.sparkContext._jsc.sc().stop()  # type: ignore[attr-defined]
    assert jvm.how_it_ended(0) == "its cluster ended it"


def test_no_spark_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "SparkContext", SimpleNamespace(_gateway=None))
    assert jvm.how_it_ended() is None


@pytest.fixture
def hungry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker whose first dataset has a query that ends Spark, and its stores and jobs."""
    monkeypatch.setattr(odf_workers.program.loop, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(odf_workers.program.loop, "PAUSE_GROWTH", 1)
    monkeypatch.setattr(jvm, "how_it_ended", lambda: "it ran out of memory")
    stores = throwaway_stores()
    large, small = (created(stores, number=number) for number in (1, 2))
    ran: list[str] = []
    trouble: list[Exception] = [Py4JError("py4j.reflection does not exist in the JVM")]

    def transform(_: JobContext, job: Any) -> dict[str, Any]:
        ran.append("large" if job.spec.dataset == large.id else "small")
        if job.spec.dataset == large.id:
            raise trouble[0]
        return {}

    monkeypatch.setattr(odf_workers.program.loop, "HANDLERS", {transform_job.KIND: transform})
    jobs = [
        stores.jobs.submit(transform_job.job_of(made.id, TransformPayload()))
        for made in (large, small)
    ]
    worker = Worker(
        stores=stores,
        context=bench_without_engine(stores, tmp_path),
        name="here",
        lease=LEASE,
        longest_pause_s=0.01,
        attempts=2,
        renew_spark=mock.Mock(),
    )
    return SimpleNamespace(
        worker=worker, stores=stores, ran=ran, large=jobs[0], small=jobs[1], trouble=trouble
    )


def test_a_job_that_ends_spark_lets_others_go_first_and_is_given_up_with_a_reason(
    hungry: Any,
) -> None:
    hungry.worker.work(once=True)
    deadline = time.monotonic() + 120
    while hungry.stores.jobs.get(hungry.large).outcome is None:
        assert time.monotonic() < deadline
        hungry.worker.work(once=True)
    assert hungry.ran[0] == "large"
    assert sorted(hungry.ran) == ["large", "large", "small"]
    assert isinstance(hungry.stores.jobs.get(hungry.small).outcome, Succeeded)
    given_up = hungry.stores.jobs.get(hungry.large).outcome
    assert isinstance(given_up, Failed)
    assert given_up.error == "JobAbandoned"
    assert "after 2 tries, each of which ended Spark (it ran out of memory)" in given_up.message
    assert given_up.facts == {
        "attempts": 2,
        "setting": "ODF_WORKER_SPARK_DRIVER_MEMORY",
        "retryable": False,
    }
    assert hungry.worker.renew_spark.call_count == 2


def test_a_job_rests_when_there_is_another_spark_so_that_its_start_does_not_count(
    hungry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    extend = hungry.stores.jobs.extend

    def rest(*given: Any, **named: Any) -> None:
        did.append("rest")
        extend(*given, **named)

    monkeypatch.setattr(hungry.stores.jobs, "extend", rest)
    hungry.worker.renew_spark.side_effect = lambda: did.append("another Spark")
    (job,) = hungry.stores.jobs.claim_groups("here", [transform_job.KIND], lease=LEASE)[0]
    hungry.worker.run([[job]])
    assert did == ["another Spark", "rest"]


def test_a_job_that_is_repeated_leaves_no_file_of_earlier_executors(
    hungry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        worker_side, "begin", lambda job, repeated: begun.append((job, list(repeated)))
    )
    deadline = time.monotonic() + 120
    while hungry.stores.jobs.get(hungry.large).outcome is None:
        assert time.monotonic() < deadline
        hungry.worker.work(once=True)
    large, small = hungry.large, hungry.small
    assert begun == [(large, []), (small, []), (large, [large])]


def test_a_stage_that_failed_with_its_spark_is_run_on_another(hungry: Any) -> None:
    hungry.trouble[0] = StageFailed("Job 3 was cancelled because SparkContext was shut down")
    (job,) = hungry.stores.jobs.claim_groups("here", [transform_job.KIND], lease=LEASE)[0]
    hungry.worker.run([[job]])
    assert hungry.worker.renew_spark.call_count == 1


def test_a_stage_that_failed_on_a_spark_that_is_there_is_run_on_it_again(
    hungry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "how_it_ended", lambda: None)
    hungry.trouble[0] = StageFailed("a disk is full")
    (job,) = hungry.stores.jobs.claim_groups("here", [transform_job.KIND], lease=LEASE)[0]
    hungry.worker.run([[job]])
    assert hungry.worker.renew_spark.call_count == 0
    assert hungry.stores.jobs.get(hungry.large).outcome is None


def test_where_there_can_be_no_other_spark_the_worker_ends_and_the_job_rests(hungry: Any) -> None:
    with pytest.raises(EngineGone, match="out of memory"):
        replace(hungry.worker, renew_spark=None).work(once=True)
    resting = hungry.stores.jobs.get(hungry.large)
    assert (resting.status, resting.outcome, resting.attempt) == (JobStatus.RUNNING, None, 1)


def test_a_job_whose_workers_were_killed_is_given_up_with_a_reason(hungry: Any) -> None:
    for expected in (hungry.large, hungry.small, hungry.large):  # the one not begun goes first
        taken = hungry.stores.jobs.claim(
            "killed", [transform_job.KIND], lease=timedelta(microseconds=1)
        )
        assert taken is not None
        assert taken.id == expected
        time.sleep(0.001)
    hungry.worker.work(once=True)
    given_up = hungry.stores.jobs.get(hungry.large).outcome
    assert isinstance(given_up, Failed)
    assert "after 2 tries, each of which ended its worker" in given_up.message
    assert given_up.facts["setting"] == "ODF_WORKER_SPARK_DRIVER_MEMORY"
    assert hungry.ran == ["small"]


@pytest.mark.spark
def test_a_query_beyond_the_heap_ends_its_job_and_the_next_one_has_another_spark(
    tmp_path: Path,
) -> None:
    stores = open_stores(StoreSettings(data=tmp_path / "data"))
    beyond = "select n, size(sequence(1, n * 200000000)) as m from input"
    jobs = [
        submit(
            stores, created(stores, number=number, source=preprocessed(query)), ndjson([{"n": 1}])
        )
        for number, query in enumerate([beyond, "select n, n + 1 as m from input"])
    ]
    environment = {
        "ODF_WORKER_JOB_ATTEMPTS": "1",
        "ODF_WORKER_SPARK_DRIVER_MEMORY": "480m",
        "ODF_WORKER_SCRATCH": str(tmp_path / "scratch"),
    }
    subprocess.run(
        [sys.executable, "-m", "odf_workers.main", "--data", str(tmp_path / "data"), "--once"],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        timeout=300,
    )
    failed, done = (stores.jobs.get(job).outcome for job in jobs)
    assert isinstance(failed, Failed), failed
    assert failed.error == "JobAbandoned"
    assert "after 1 try, each of which ended Spark (it ran out of memory)" in failed.message
    assert isinstance(done, Succeeded), done
    stores.close()


@pytest.mark.spark
def test_a_query_that_does_not_heed_its_end_is_ended_and_the_next_one_has_another_spark(
    tmp_path: Path,
) -> None:
    stores = open_stores(StoreSettings(data=tmp_path / "data"))
    inner = "aggregate(sequence(1, 100000), n, (a, b) -> a + b)"
    endless = f"select aggregate(sequence(1, 100000), n, (a, b) -> a + {inner}) as m from input"
    queries = [endless, "select n, n + 1 as m from input"]
    jobs = [
        submit(stores, created(stores, number=at, source=preprocessed(query)), ndjson([{"n": 1}]))
        for at, query in enumerate(queries)
    ]
    program = (
        "import sys; from odf_workers.engines.spark import limit; "
        "from odf_workers.main import main; limit.GRACE_S = 1.0; main(sys.argv[1:])"
    )
    words = [sys.executable, "-c", program, "--data", str(tmp_path / "data"), "--once"]
    environment = {"ODF_WORKER_QUERY_S": "12", "ODF_WORKER_SCRATCH": str(tmp_path / "scratch")}
    done = subprocess.run(
        words, env={**os.environ, **environment}, check=True, capture_output=True, timeout=400
    )
    failed, other = (stores.jobs.get(job).outcome for job in jobs)
    assert isinstance(failed, Failed), failed
    assert "did not end within 12 seconds" in failed.message
    assert isinstance(other, Succeeded), other
    assert b"Spark is ended with a query that does not end" in done.stderr
    stores.close()


def preprocessed(query: str) -> AddPushSource:
    return AddPushSource(
        source_name="default",
        read=ReadStepNdJson(),
        preprocess=TransformSql(engine="spark", queries=(SqlQueryStep(query=query),)),
        merge=MergeStrategyAppend(),
    )
