"""Spark starts with the first work for it, once; one that does not start is one that is gone."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import pytest
from refusals import refusing
from tests.workers.datasets import created, ndjson, submit, worker_of
from throwaway import throwaway_stores

from odf_protocol.errors import NodeFault
from odf_protocol.metadata.events import RawQueryRequest, SqlQueryStep, TransformSql
from odf_storage.stores.ports.values import Succeeded


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """What stands for the start of Spark; makes a session."""
    from odf_workers.engines.spark import session as spark

    found = mock.Mock(side_effect=lambda _: mock.Mock())
    monkeypatch.setattr(spark, "start_spark", found)
    return found


@pytest.fixture
def later(starts: mock.Mock) -> Any:
    from odf_workers.engines.spark.session import SparkOptions, SparkWhenNeeded

    return SparkWhenNeeded(SparkOptions())


def test_who_asks_first_starts_it_for_all(later: Any, starts: mock.Mock) -> None:
    starts.assert_not_called()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: later.newSession(), range(20)))
    starts.assert_called_once()
    session = later.start()
    assert session.newSession.call_count == 20
    assert later.sparkContext is session.sparkContext
    later.stop()
    session.stop.assert_called_once()


def test_rows_that_are_appended_start_nothing(
    later: Any, starts: mock.Mock, tmp_path: Path
) -> None:
    stores = throwaway_stores()
    worker = worker_of(later, stores, tmp_path)
    job = submit(stores, created(stores), ndjson([{"n": 1}]))
    worker.work(once=True)
    assert isinstance(stores.jobs.get(job).outcome, Succeeded)
    worker.context.engines.session.stop()
    starts.assert_not_called()


def test_without_a_start_a_query_is_no_wrong_query(later: Any, starts: mock.Mock) -> None:
    from pyspark.errors import PySparkRuntimeError

    from odf_workers.engines.spark_engine.engine import SparkEngine

    starts.side_effect = PySparkRuntimeError("JAVA_GATEWAY_EXITED", {})
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1 as n"),))
    request = RawQueryRequest(input_data_paths=(), transform=transform, output_data_path="/none")
    for _ in range(2):
        with pytest.raises(ConnectionError, match="Spark does not start"):
            SparkEngine(later).execute_raw_query(request)
    assert starts.call_count == 2


def test_that_there_is_no_java_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from odf_workers.engines.spark import session as spark

    monkeypatch.setattr(
        spark, "java_home", mock.Mock(side_effect=NodeFault("JavaNotFound", "no Java"))
    )
    with refusing("JavaNotFound"):
        spark.SparkWhenNeeded(spark.SparkOptions())


def test_the_jvm_logs_in_every_form_the_worker_does() -> None:
    from odf_workers.engines.spark.session import LAYOUTS
    from odf_workers.settings import WorkerSettings

    forms = get_args(WorkerSettings.model_fields["log_format"].annotation)
    assert set(LAYOUTS) == set(forms)
    (pattern,) = re.findall("layout.pattern = (.*)", LAYOUTS["json"].replace("\\\n", ""))
    shown = re.sub(r"%(enc\{%\w+\})?\w*(\{[^}]*\})*", "", pattern)
    assert set(json.loads(shown)) == {"time", "level", "logger", "message", "exception"}
