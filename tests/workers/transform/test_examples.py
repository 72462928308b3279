"""The pipelines of `examples/` run: manifests are right, queries can be kept up to date."""

from __future__ import annotations

import gzip
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.workers.datasets import ingest_options, now, submit
from tests.workers.derivatives import read
from tests.workers.transform.manifests import EXAMPLES, made
from throwaway import throwaway_stores

from odf_protocol.identity import DatasetRef
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.stores.ports.values import Succeeded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 60
"""Of each table: the first hours of 2013."""


def first_rows(path: Path) -> bytes:
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    return b"".join(lines[: ROWS + 1])


def test_flights_and_weather_run_through_the_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.transform.run import run_transform
    from odf_workers.jobs.work.context import Engines, WorkerContext
    from odf_workers.program.loop import Worker

    stores = throwaway_stores()
    bench = WorkerContext(
        engines=Engines(session=spark, first=SparkEngine(spark)),
        objects=stores.objects,
        scratch=tmp_path,
        ingest=ingest_options(tmp_path),
    )
    worker = Worker(
        stores=stores, context=bench, name="here", lease=timedelta(seconds=60), longest_pause_s=0.1
    )
    tables = {
        "weather/weather.yaml": "weather/weather.csv.gz",
        "flights/flights.yaml": "flights/2013-01.csv.gz",
    }
    jobs = [
        submit(stores, made(stores, EXAMPLES / manifest), first_rows(EXAMPLES / rows))
        for manifest, rows in tables.items()
    ]
    worker.work(once=True)
    assert all(isinstance(stores.jobs.get(job).outcome, Succeeded) for job in jobs)
    names = (
        "weather/daily",
        "flights/flights-weather",
        "flights/carrier-delays",
        "flights/top-routes",
    )
    receipts = {}
    for name in names:
        dataset = made(stores, EXAMPLES / f"{name}.yaml")
        receipts[name] = run_transform(stores, dataset, TransformPayload(), bench, now=now())
    assert {name: receipt.outcome for name, receipt in receipts.items()} == dict.fromkeys(
        names, "updated"
    )
    joined = read(stores, stores.dataset(DatasetRef.parse("kamu/flights-weather")))
    assert len(joined) > 0
    assert any(row["wind_speed"] is not None for row in joined)
