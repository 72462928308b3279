"""Ingestion goes on from whatever history a dataset was given, and remembers none that is gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.datasets import created, ndjson, submit, worker_of
from throwaway import throwaway_stores

from odf_protocol.metadata.sources import MergeStrategySnapshot
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads import compact_job
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.read import RowsRequest, reading
from odf_storage.datasets.read.rows import Projection
from odf_storage.datasets.read.view import view_of_dataset
from odf_storage.datasets.rewrite.compact import reset
from odf_storage.stores.ports.values import JobSpec, Succeeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.program.loop import Worker

pytestmark = pytest.mark.spark
DAY = "2024-01-01T00:00:00Z"


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def worker(spark: SparkSession, stores: Stores, tmp_path: Path) -> Worker:
    return worker_of(spark, stores, tmp_path)


def ingested(stores: Stores, worker: Worker, dataset: Dataset, rows: dict[str, int]) -> None:
    batch = [{"event_time": DAY, "city": city, "n": n} for city, n in rows.items()]
    job = submit(stores, dataset, ndjson(batch))
    worker.work(once=True)
    assert isinstance(stores.jobs.get(job).outcome, Succeeded), stores.jobs.get(job).outcome


def state(dataset: Dataset) -> dict[str, int]:
    asked = RowsRequest(projection=Projection.STATE)
    found: dict[str, Any] = {}
    with reading(view_of_dataset(dataset), asked) as (_, batches):
        for batch in batches:
            found |= {row["city"]: row["n"] for row in batch.to_pylist()}
    return found


def test_a_snapshot_is_compared_with_the_state_of_the_present_history(
    stores: Stores, worker: Worker
) -> None:
    merge = MergeStrategySnapshot(primary_key=("city",))
    dataset = created(stores, merge=merge)
    ingested(stores, worker, dataset, {"a": 1, "b": 2})
    ingested(stores, worker, dataset, {"a": 1, "b": 3})
    before = dataset.head()
    job = stores.jobs.submit(JobSpec(compact_job.KIND, dataset.id, {}))
    worker.work(once=True)
    assert isinstance(stores.jobs.get(job).outcome, Succeeded)
    assert dataset.head() != before
    assert state(dataset) == {"a": 1, "b": 3}
    ingested(stores, worker, dataset, {"a": 1, "b": 3, "c": 4})
    assert state(dataset) == {"a": 1, "b": 3, "c": 4}
    assert dataset.state().num_records == 5  # nothing was added twice
    schema_block = next(b for b in dataset.blocks() if type(b.event).__name__ == "SetDataSchema")
    reset(stores, dataset.entry, target=schema_block.hash)
    ingested(stores, worker, dataset, {"b": 9})
    assert state(dataset) == {"b": 9}
    assert dataset.state().num_records == 1
