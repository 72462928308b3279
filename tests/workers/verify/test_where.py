"""Where a verification runs, and how that is reported and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.workers.datasets import bench_without_engine
from tests.workers.derivatives import add_rows, moment, root
from throwaway import throwaway_stores

from odf_storage.datasets.job_payloads.verify_job import VerifyPayload
from odf_workers.jobs.ingest.ways import SMALL
from odf_workers.jobs.verify.run import run_verification
from odf_workers.jobs.verify.spread import OUT_OF_REACH
from odf_workers.jobs.work.context import BatchSize, StagesRan


@pytest.mark.parametrize(("limit", "because"), [(1 << 30, SMALL), (0, OUT_OF_REACH)])
def test_a_verification_in_the_process_tells_why_it_is_not_on_spark_and_is_counted_once(
    limit: int, because: str, tmp_path: Path
) -> None:
    stores = throwaway_stores()  # no folder or bucket that tasks of Spark could read
    cities = root(stores, "cities")
    for n in range(3):
        add_rows(stores, cities, [(f"2024-01-0{n + 1}T00:00:00Z", "a", n)], tmp_path, at=10 + n)
    told: list[StagesRan] = []
    context = replace(
        bench_without_engine(stores, tmp_path, micro_batch_bytes=limit), on_stages=told.append
    )
    answer = run_verification(stores, cities, VerifyPayload(), context, now=moment(100))
    (found,) = answer.datasets
    assert found.ran is not None
    assert (found.ran.way, found.ran.because) == ("process", because)
    (ran,) = told
    assert (ran.usage.way, ran.batches) == ("process", [BatchSize(bytes=found.ran.bytes)])
