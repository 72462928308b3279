"""The tour of docs/provenance.md: from the worst day down to lines of the file that was posted."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from service import Service, serving
from tests.workers.derivatives import Working, add_rows, commit, derivative, moment, node_of, root

from odf_node.cli.main import main
from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepCsv
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.stores.ports.values import Visibility
from odf_workers.jobs.transform.run import run_transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAGE = (Path(__file__).parents[3] / "docs" / "provenance.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_tour_prints_what_the_page_shows(spark: SparkSession, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with serving(tmp_path / "node", poll_s=0.05) as service:
        working = made(service, spark, scratch)
        with working:
            command, *shown = blocks("console")[1].splitlines()
            words = command.removeprefix("$ odf-node ").split()
            words[1] = f"{service.url}/{words[1]}"
            ran = CliRunner().invoke(main, words)
    assert ran.exit_code == 0, ran.output
    assert _without_versions(ran.output.splitlines()) == _without_versions(shown)


def made(service: Service, spark: SparkSession, scratch: Path) -> Working:
    """The datasets of the tour, computed, and a worker with Spark that is not started yet."""
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines

    stores = service.node.stores
    engines = Engines(session=spark, first=SparkEngine(spark))
    bench = replace(node_of(stores, scratch), engines=engines)
    flights = root(stores, "flights")
    source = AddPushSource(source_name="default", read=ReadStepCsv(), merge=MergeStrategyAppend())
    commit(flights, source, at=1)
    lines = csv.DictReader(io.StringIO(blocks("csv")[0]))
    rows = [(one["event_time"], one["city"], int(one["n"])) for one in lines]
    add_rows(stores, flights, rows, scratch, at=10, watermark="2024-01-05T00:00:00Z")
    daily, worst = blocks("sql")
    days = derivative(stores, "days", [flights], daily, engine="spark")
    ranked = derivative(stores, "worst", [days], worst, engine="spark")
    for at, each in enumerate((days, ranked)):
        run_transform(stores, each, TransformPayload(), bench, now=moment(1000 + at))
    for each in (flights, days, ranked):
        stores.set_visibility(each.id, Visibility.PUBLIC)
    working = Working(service, scratch)
    working.worker.context = bench
    return working


def _without_versions(lines: list[str]) -> list[str]:
    return [re.sub(r"spark [0-9][^:]*:", "spark:", line.rstrip()) for line in lines]
