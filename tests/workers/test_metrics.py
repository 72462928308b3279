"""What a worker counts of the jobs that ended."""

from __future__ import annotations

import pytest
from throwaway import throwaway_stores

from odf_node.storage.datasets.job_payloads import ingest_job
from odf_node.storage.datasets.job_payloads.ingest_job import IngestReceipt, RanReceipt
from odf_node.storage.stores.ports.values import Failed, Job, JobSpec, Succeeded
from odf_node.workers.program.metrics import BY_WAY, WorkerMetrics


def job_of(kind: str) -> Job:
    stores = throwaway_stores()
    stores.jobs.submit(JobSpec(kind, None, {}))
    (job,) = stores.jobs.page()
    return job


def receipt_of(way: str, rows: int) -> Succeeded:
    spark = {"spark_jobs": 2, "tasks": 7, "shuffle_bytes": 100, "spill_bytes": 3}
    ran = RanReceipt(
        way=way,  # type: ignore[arg-type]
        bytes=10 * rows,
        micro_batch_bytes=8,
        splits=1,
        **(spark if way == "spark" else {}),
    )
    receipt = IngestReceipt(
        outcome="updated", prev_head="a", head="b", rows_read=rows, rows_added=rows - 1, ran=ran
    )
    return Succeeded(ingest_job.to_json(receipt))


def test_batches_are_counted_by_where_their_stages_ran() -> None:
    metrics, job = WorkerMetrics(), job_of("ingest")
    for way, rows in (("process", 2), ("process", 3), ("spark", 40)):
        metrics.ended(job, receipt_of(way, rows), 0.2)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"kind": "ingest", **labels})

    assert value("odf_worker_rows_total") == 1 + 2 + 39
    assert value("odf_worker_batch_seconds_count", way="process") == 2
    assert value("odf_worker_batch_seconds_sum", way="spark") == pytest.approx(0.2)
    found = {name: value(f"{name}_total", way="spark") for name in BY_WAY}
    assert found == {
        "odf_worker_batch_rows": 40,
        "odf_worker_batch_bytes": 400,
        "odf_worker_spark_jobs": 2,
        "odf_worker_spark_tasks": 7,
        "odf_worker_shuffle_bytes": 100,
        "odf_worker_spill_bytes": 3,
    }
    assert value("odf_worker_batch_rows_total", way="process") == 5
    assert value("odf_worker_spark_tasks_total", way="process") == 0


def test_jobs_without_stages_are_of_no_way() -> None:
    metrics, job = WorkerMetrics(), job_of("compact")
    metrics.ended(job, Succeeded({"rowsAdded": 1}), 0.2)
    metrics.ended(job, Failed("Bad", "it is bad"), 0.2)
    text = {sample.name for each in metrics.registry.collect() for sample in each.samples}
    assert not {name for name in text if name.startswith("odf_worker_batch_rows")}
