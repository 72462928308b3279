"""The manifests in `examples/` take the data they were written for.

Small samples lie beside them; with ODF_EXAMPLE_DATA=FOLDER (`make examples`) the whole files of
that folder are taken, and their numbers of rows are known.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.datasets import created, ingest_options, now, upload
from throwaway import throwaway_stores

from odf_protocol.chain.snapshot import normalize_event
from odf_protocol.codec.manifests import load_snapshots
from odf_protocol.instant import Instant
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.poll_job import PollPayload
from odf_storage.datasets.node.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.jobs.work.context import WorkerContext

pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parents[2] / "examples"
FLIGHTS = EXAMPLES / "nycflights13"
WHOLE = os.environ.get("ODF_EXAMPLE_DATA")
DATA = Path(WHOLE) if WHOLE else FLIGHTS / "sample"
ROWS = (
    {"flights": 336_776, "planes": 3_322, "airports": 1_458, "airlines": 16}
    if WHOLE
    else {"flights": 300, "planes": 100, "airports": 60, "airlines": 16}
)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(spark: SparkSession, stores: Stores, tmp_path: Path) -> WorkerContext:
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.fetch.values import FetchRules
    from odf_workers.jobs.work.context import Engines, PollOptions, WorkerContext

    return WorkerContext(
        engines=Engines(session=spark, first=SparkEngine(spark)),
        objects=stores.objects,
        scratch=tmp_path,
        ingest=ingest_options(tmp_path),
        polls=PollOptions(
            fetch=FetchRules(
                roots=(DATA,), variables={"FLIGHTS_URL": f"file://{DATA}/flights.csv.zip"}
            )
        ),
    )


def dataset_of(stores: Stores, manifest: Path) -> Dataset:
    (snapshot,) = load_snapshots(manifest.read_bytes())
    source, *more = (normalize_event(event, lambda _: None) for event in snapshot.metadata)
    return created(stores, source=source, more=tuple(more))


def ingested(stores: Stores, dataset: Dataset, bench: WorkerContext, body: bytes) -> Any:
    from odf_workers.jobs.ingest.run import run_ingest

    return run_ingest(dataset, upload(stores, dataset, body), bench, now=now())


def test_flights_are_polled_from_their_archive_once(stores: Stores, bench: WorkerContext) -> None:
    from odf_workers.jobs.sources.poll import run_poll

    dataset = dataset_of(stores, FLIGHTS / "flights.yaml")
    receipt = run_poll(dataset, PollPayload(), bench, now=now())
    assert receipt.rows_added == ROWS["flights"]
    assert Instant.parse(str(receipt.watermark)) >= Instant.parse("2013-01-01T10:00:00Z")
    assert run_poll(dataset, PollPayload(), bench, now=now()).outcome == "up-to-date"


def test_a_second_snapshot_of_planes_leaves_what_changed(
    stores: Stores, bench: WorkerContext
) -> None:
    dataset = dataset_of(stores, FLIGHTS / "planes.yaml")
    header, *planes = (DATA / "planes.csv").read_bytes().splitlines(keepends=True)
    first = ingested(stores, dataset, bench, header + b"".join(planes[:-10]))
    assert first.rows_added == ROWS["planes"] - 10
    planes[0] = planes[0].replace(b",2,55,", b",2,50,")
    second = ingested(stores, dataset, bench, header + b"".join(planes[:5] + planes[7:]))
    assert (second.rows_added, second.rows_corrected, second.rows_retracted) == (10, 1, 2)
    assert second.rows_known == ROWS["planes"] - 13
    again = ingested(stores, dataset, bench, header + b"".join(planes[:5] + planes[7:]))
    assert again.outcome == "up-to-date"


def test_weather_that_was_seen_is_not_added_again(stores: Stores, bench: WorkerContext) -> None:
    dataset = dataset_of(stores, EXAMPLES / "weather" / "weather.yaml")
    with gzip.open(EXAMPLES / "weather" / "weather.csv.gz") as stream:
        lines = stream.read().splitlines(keepends=True)
    count = len(lines) - 1 if WHOLE else 2_000
    half, header = count // 2, lines[0]
    first = ingested(stores, dataset, bench, header + b"".join(lines[1 : half + 1]))
    assert first.rows_added == half
    second = ingested(stores, dataset, bench, header + b"".join(lines[1 : count + 1]))
    assert (second.rows_added, second.rows_known) == (count - half, half)
    if WHOLE:
        assert dataset.state().last_offset == 26_115 - 1


@pytest.mark.parametrize("name", ["airports", "airlines"])
def test_tables_of_names_are_snapshots(name: str, stores: Stores, bench: WorkerContext) -> None:
    dataset = dataset_of(stores, FLIGHTS / f"{name}.yaml")
    body = (DATA / f"{name}.csv").read_bytes()
    assert ingested(stores, dataset, bench, body).rows_added == ROWS[name]
    assert ingested(stores, dataset, bench, body).outcome == "up-to-date"
