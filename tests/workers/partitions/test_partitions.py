"""The contract of partitions, on each way that stages run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.workers.partitions import stages

from odf_workers.partitions.port import Here
from odf_workers.slices.schema import BadRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf_workers.partitions.port import Way


@pytest.fixture
def way_on_spark(spark: SparkSession) -> Iterator[Way]:
    from pyspark import cloudpickle

    from odf_workers.partitions.on_spark import OnSpark

    cloudpickle.register_pickle_by_value(sys.modules[stages.__name__])
    with closing(OnSpark(spark)) as way:
        yield way
    cloudpickle.unregister_pickle_by_value(sys.modules[stages.__name__])


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.spark)])
def way(request: pytest.FixtureRequest) -> Way:
    return Here() if request.param == "here" else request.getfixturevalue("way_on_spark")


def test_a_stage_tells_its_facts_by_partition(way: Way) -> None:
    partitions = way.read([(0, 250), (250, 300), (300, 300)], stages.counted)
    assert partitions.facts() == [[{"rows": 250}], [{"rows": 50}], [{"rows": 0}]]


def test_rows_come_in_the_order_of_the_partitions_that_they_come_from(way: Way) -> None:
    partitions = way.read([(0, 250), (250, 1000)], stages.counted)
    partitions.facts()
    facts = partitions.then(3, stages.by_remainder, stages.listed).facts()
    assert facts == [[(n, list(range(n, 1000, 3)))] for n in range(3)]


def test_a_partition_without_rows_is_a_stage_as_well(way: Way) -> None:
    partitions = way.read([(0, 1)], stages.counted)
    partitions.facts()
    facts = partitions.then(3, stages.by_remainder, stages.listed).facts()
    assert facts == [[(0, [0])], [(1, [])], [(2, [])]]


def test_stages_follow_each_other(way: Way) -> None:
    first = way.read([(0, 10)], stages.counted)
    first.facts()
    second = first.then(3, stages.by_remainder, stages.listed)
    second.facts()
    third = second.then(3, stages.by_remainder, stages.listed)
    assert third.facts() == [[(n, list(range(n, 10, 3)))] for n in range(3)]


def test_the_error_of_the_first_partition_in_order_is_raised_as_it_is(way: Way) -> None:
    with pytest.raises(BadRow) as raised:
        way.read([(0, 5), (7, 500), (9, 12)], stages.failing).facts()
    assert raised.value.message == "line 7, column `n`: it is not a number"
    assert raised.value.facts == {"line": 7, "column": "n"}
    assert raised.value.line == 7


@pytest.mark.spark
@pytest.mark.parametrize("first", [True, False], ids=["reads", "goes on"])
def test_an_executor_of_another_version_runs_no_stage(
    way_on_spark: Way, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    from odf_workers.partitions import on_spark

    monkeypatch.setattr(on_spark, "_version", lambda: "0.0.1" if first else version("odf-node"))
    partitions = way_on_spark.read([(0, 250)], stages.counted)
    if not first:
        partitions.facts()
        monkeypatch.setattr(on_spark, "_version", lambda: "0.0.1")
        partitions = partitions.then(1, stages.by_remainder, stages.listed)
    with pytest.raises(on_spark.StageFailed, match=r"the worker has 0\.0\.1: install the same"):
        partitions.facts()


@pytest.mark.spark
def test_spark_counts_what_a_stage_takes(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark import cloudpickle

    from odf_workers.partitions.on_spark import OnSpark

    way = OnSpark(spark)
    cloudpickle.register_pickle_by_value(sys.modules[stages.__name__])
    try:
        partitions = way.read([(0, 1000), (1000, 2000)], stages.counted)
        partitions.facts()
        assert (way.usage.jobs, way.usage.tasks, way.usage.shuffle_bytes) == (1, 2, 0)
        partitions.then(3, stages.by_remainder, stages.listed).facts()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[stages.__name__])
    assert (way.usage.jobs, way.usage.tasks) == (2, 7)
    assert way.usage.shuffle_bytes > 0


@pytest.mark.spark
def test_spark_keeps_no_rows_of_a_way_that_is_closed(spark: SparkSession) -> None:
    from pyspark import cloudpickle

    from odf_workers.partitions.on_spark import OnSpark

    way, kept = OnSpark(spark), spark.sparkContext._jsc.getPersistentRDDs
    before = set(kept().keySet().toArray())
    cloudpickle.register_pickle_by_value(sys.modules[stages.__name__])
    try:
        partitions = way.read([(0, 5), (7, 500)], stages.counted)
        partitions.facts()
        partitions.then(3, stages.by_remainder, stages.listed).facts()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[stages.__name__])
    assert len(set(kept().keySet().toArray()) - before) == 2
    way.close()
    assert set(kept().keySet().toArray()) <= before
