"""Equal requests give equal slices, whatever machine and engine compute them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.workers.engine.changes import APPEND, CITIES, NOW_IS, RETRACT, WAS, cities
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.metadata.events import TransformResponseSuccess
from odf_workers.engines.datafusion.engine import DataFusionEngine
from odf_workers.engines.iteration import inputs
from odf_workers.slices.write import described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "op, event_time, city, n"
QUERIES = {
    "map": f"select {COLUMNS}, cast(n as double) / 7 + 0.1 as x from cities",
    "filter": f"select {COLUMNS} from cities where n % 3 <> 1",
    "union": f"select {COLUMNS} from cities where n > 40 union all "
    f"select {COLUMNS} from more union all select {COLUMNS} from cities where n < 60",
    "order": "select event_time, city, n from more order by n desc, city",
    "steps": f"with c as (select {COLUMNS} from cities) select {COLUMNS} from c where n > 10",
}
PARTITIONS = (1, 2, 8)


def changelog(seed: int, rows: int, *, appends: bool = False) -> pa.Table:
    """Appends, retractions and corrections as a root would have them."""
    chance, made = random.Random(seed), []
    while len(made) < rows:
        city, n = f"c{chance.randrange(9)}", chance.randrange(100)
        if appends or chance.random() < 0.5:
            made.append((APPEND, city, n))
        elif chance.random() < 0.3:
            made.append((RETRACT, city, n))
        else:
            made += [(WAS, city, n), (NOW_IS, city, chance.randrange(100))]
    return cities(*made)


def run(engine: Any, folder: Path, query: str) -> Derivative:
    derivative = Derivative(
        engine=engine,
        folder=folder,
        transform=sql(query, engine=engine.name),
        schemas={"cities": CITIES, "more": CITIES},
    )
    rows = {"cities": changelog(1, 700), "more": changelog(2, 300, appends=True)}
    if "order by" in query:
        del rows["cities"]
    response = derivative.run(rows)
    assert isinstance(response, TransformResponseSuccess), response
    return derivative


def cut_into(spark: SparkSession, parts: int) -> Any:
    """An engine whose Spark cuts every input and every shuffle into so many parts."""
    from odf_workers.engines.spark_engine.engine import SparkEngine

    settings = {
        "spark.sql.files.minPartitionNum": str(parts),
        "spark.sql.files.openCostInBytes": "1",
        "spark.sql.shuffle.partitions": str(parts),
        "spark.sql.leafNodeDefaultParallelism": str(parts),
    }
    return SparkEngine(spark, settings=settings)


@pytest.fixture(autouse=True)
def _many_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small inputs that can be cut anyway."""
    monkeypatch.setattr(inputs, "BATCH_ROWS", 50)


@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_partitions_leave_no_trace(name: str, spark: SparkSession, tmp_path: Path) -> None:
    made = set()
    for parts in PARTITIONS:
        found = run(cut_into(spark, parts), tmp_path / str(parts), QUERIES[name])
        made.add((found.data.read_bytes(), str(described(found.data, 0).logical_hash)))
    assert len(made) == 1


@pytest.mark.spark
def test_large_results_come_in_the_same_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odf_workers.engines.spark_engine import transform as spark_transform

    small = run(cut_into(spark, 2), tmp_path / "small", QUERIES["union"])
    monkeypatch.setattr(spark_transform, "SMALL_ROWS", 10)
    large = run(cut_into(spark, 8), tmp_path / "large", QUERIES["union"])
    assert large.data.read_bytes() == small.data.read_bytes()


@pytest.mark.spark
def test_inputs_are_indeed_cut(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise the tests above say nothing."""
    from odf_workers.engines.spark.allowed import TRANSFORM
    from odf_workers.engines.spark.frames import read_parquet

    staged = run(cut_into(spark, 2), tmp_path, QUERIES["map"])
    engine = cut_into(spark, 8)
    frame = read_parquet(engine._sessions.of(TRANSFORM), [staged.data], staged.table().schema)
    assert frame.rdd.getNumPartitions() >= 8


@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_engines_agree(name: str, spark: SparkSession, tmp_path: Path) -> None:
    ours = run(cut_into(spark, 2), tmp_path / "spark", QUERIES[name])
    theirs = run(DataFusionEngine(), tmp_path / "datafusion", QUERIES[name])
    assert ours.table().to_pylist() == theirs.table().to_pylist()
    assert described(ours.data, 0).logical_hash == described(theirs.data, 0).logical_hash
