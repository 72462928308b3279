"""What a worker counts of jobs that ended and of stages that ran."""

from __future__ import annotations

import pytest
from throwaway import throwaway_stores

from odf_storage.stores.ports.values import Failed, Job, JobSpec, Succeeded
from odf_workers.jobs.work.context import BatchSize, StagesRan, reported
from odf_workers.partitions.port import StageUsage
from odf_workers.program.metrics import OF_SPARK, WorkerMetrics


def job_of(kind: str) -> Job:
    stores = throwaway_stores()
    stores.jobs.submit(JobSpec(kind, None, {}))
    (job,) = stores.jobs.page()
    return job


SPARK = StageUsage(way="spark", jobs=2, tasks=7, shuffle_bytes=100, spill_bytes=3)


def test_batches_are_counted_by_way_and_spark_once_for_all_that_share_it() -> None:
    metrics = WorkerMetrics()
    for rows in (2, 3):
        batch = BatchSize(rows=rows, bytes=10 * rows)
        metrics.stages_ran("ingest", StagesRan(usage=StageUsage(), seconds=0.2, batches=(batch,)))
    shared = (BatchSize(rows=40, bytes=400), BatchSize(rows=2, bytes=20))
    metrics.stages_ran("ingest", StagesRan(usage=SPARK, seconds=0.2, batches=shared))

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"kind": "ingest", **labels})

    assert value("odf_worker_batch_seconds_count", way="process") == 2
    assert value("odf_worker_batch_seconds_sum", way="spark") == pytest.approx(0.4)
    assert value("odf_worker_batch_rows_total", way="spark") == 42
    assert value("odf_worker_batch_bytes_total", way="spark") == 420
    assert {name: value(f"{name}_total", way="spark") for name in OF_SPARK} == {
        "odf_worker_spark_jobs": 2,
        "odf_worker_spark_tasks": 7,
        "odf_worker_shuffle_bytes": 100,
        "odf_worker_spill_bytes": 3,
    }
    assert value("odf_worker_batch_rows_total", way="process") == 5
    assert value("odf_worker_spark_tasks_total", way="process") == 0


def test_a_run_that_fails_counts_what_spark_did_and_no_batch() -> None:
    told: list[StagesRan] = []
    with pytest.raises(OSError, match="full"), reported(told.append, lambda: SPARK):
        raise OSError("the disk is full")
    (ran,) = told
    assert (ran.usage, ran.batches) == (SPARK, [])


def test_jobs_are_counted_by_how_they_ended_and_their_rows_once() -> None:
    metrics, job = WorkerMetrics(), job_of("compact")
    metrics.ended(job, Succeeded({"rowsAdded": 1, "rowsLate": 3}), 0.2)
    metrics.ended(job, Failed("Bad", "it is bad"), 0.2)
    value = metrics.registry.get_sample_value
    for outcome in ("done", "failed"):
        assert value("odf_worker_jobs_total", {"kind": "compact", "outcome": outcome}) == 1
    assert value("odf_worker_rows_total", {"kind": "compact"}) == 1
    assert value("odf_worker_late_rows_total") == 3
    text = {sample.name for each in metrics.registry.collect() for sample in each.samples}
    assert not {name for name in text if name.startswith("odf_worker_batch_rows")}
