"""Rows that come after their window was closed are counted; a derivative is repaired by a reset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.derivatives import add_rows, derivative, moment, node_of, read, root
from throwaway import throwaway_stores

from odf_storage.datasets.job_payloads.transform_job import TransformPayload, TransformReceipt
from odf_storage.datasets.rewrite.compact import reset
from odf_workers.jobs.transform.run import run_transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAILY = (
    "select window(event_time, '1 day').start as event_time, city, sum(n) as n from prices "
    "group by window(event_time, '1 day'), city"
)


def test_case_07_late_rows_are_counted_and_a_reset_takes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines

    stores = throwaway_stores()
    bench = replace(
        node_of(stores, tmp_path), engines=Engines(session=spark, first=SparkEngine(spark))
    )
    prices = root(stores, "prices")
    daily = derivative(stores, "daily", [prices], DAILY, engine="spark")
    begin = daily.head()

    def run(at: int) -> TransformReceipt:
        return run_transform(stores, daily, TransformPayload(), bench, now=moment(at))

    def days() -> list[Any]:
        return [(row["event_time"].day, row["n"]) for row in read(stores, daily)]

    def add(at: int, *rows: Any) -> None:  # as a version did that had no bound
        times = [row[0] for row in rows] + ([] if at == 10 else ["2099-01-01T00:00:00Z"])
        add_rows(stores, prices, rows, tmp_path, at=at, watermark=max(times))

    add(10, ("2025-01-01T00:00:00Z", "a", 1), ("2025-01-02T00:00:00Z", "a", 2))
    add(20, ("2099-01-01T00:00:00Z", "wrong", 7))
    assert run(1000).rows_late == 0
    assert days() == [(1, 1), (2, 2)]
    add(30, ("2025-01-10T00:00:00Z", "a", 10), ("2025-01-11T00:00:00Z", "a", 11))
    told = run(2000)
    assert (told.rows_read, told.rows_late, days()) == (2, 2, [(1, 1), (2, 2)])
    assert told.warnings == ("2 rows were older than the allowed lateness and came to nothing",)
    reset(stores, daily.entry, target=begin)
    again = run(3000)
    assert again.rows_late == 0
    assert days() == [(1, 1), (2, 2), (10, 10), (11, 11)]
