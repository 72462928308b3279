"""Rows from before an input got a column are empty in it, and old rows stay until new are whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from refusals import refusing
from tests.workers.derivatives import (
    SCHEMA,
    add_rows,
    commit,
    derivative,
    moment,
    node_of,
    read,
    root,
)
from throwaway import throwaway_stores

from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.metadata.events import ExecuteTransform, SetDataSchema
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.engines import read_note
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.stores import Stores
from odf_workers.engines.port.port import InvalidQuery
from odf_workers.jobs.transform.replay import replay
from odf_workers.jobs.transform.run import run_transform
from odf_workers.plan.transform import IterationLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDER = SCHEMA.append(pa.field("extra", pa.string()))
WIDEST = WIDER.append(pa.field("more", pa.int64()))
DAYS = [f"2024-01-0{day}T00:00:00Z" for day in range(1, 8)]
ANEW = TransformPayload(reset_on_diverged=True)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, tmp_path: Path) -> Any:
    return node_of(stores, tmp_path)


def widened(stores: Stores, tmp_path: Path) -> Dataset:
    """A root that gets one more column between its first row and its second."""
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAYS[0], "A", 1)], tmp_path, at=10)
    commit(cities, SetDataSchema(schema=from_arrow(WIDER)), at=11)
    add_rows(stores, cities, [(DAYS[1], "B", 2)], tmp_path, at=12)
    return cities


def run(stores: Stores, dataset: Dataset, bench: Any, *, at: int = 1000, **more: Any) -> Any:
    return run_transform(
        stores, dataset, more.pop("payload", TransformPayload()), bench, now=moment(at)
    )


def replayed(stores: Stores, dataset: Dataset, bench: Any) -> list[tuple[str, ...]]:
    """What differs when each execution is repeated."""
    executed = [one for one in dataset.blocks() if isinstance(one.event, ExecuteTransform)]
    return [replay(stores, dataset, block, bench).differences for block in executed]


def pairs(stores: Stores, dataset: Dataset, column: str) -> list[tuple[str, Any]]:
    return [(row["city"], row[column]) for row in read(stores, dataset)]


def rewrite(stores: Stores, dataset: Dataset) -> None:
    """Give the newest rows another block, as a compaction does."""
    newest = dataset.block(dataset.head())
    assert newest.prev is not None
    stores.refs.move(dataset.id, expected=newest.hash, new=newest.prev)
    commit(dataset, newest.event, at=500)


def follows_the_columns(stores: Stores, bench: Any, tmp_path: Path, engine: str) -> None:
    cities = widened(stores, tmp_path)
    query = "select *, extra as again from (select event_time, city, extra from cities) t"
    names = derivative(stores, "names", [cities], query, engine=engine)
    assert run(stores, names, bench).rows_added == 2
    assert [(row["city"], row["again"]) for row in read(stores, names)] == [
        ("A", None),
        ("B", None),
    ]
    assert replayed(stores, names, bench) == [(), ()]


def test_rows_from_before_a_column_came_are_empty_in_it(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    follows_the_columns(stores, bench, tmp_path, "datafusion")


@pytest.mark.spark
def test_rows_from_before_a_column_came_are_empty_in_it_on_spark(
    stores: Stores, bench: Any, tmp_path: Path, spark: SparkSession
) -> None:
    from odf_workers.engines.spark_engine.engine import SparkEngine

    bench = replace(bench, engines=replace(bench.engines, first=SparkEngine(spark)))
    follows_the_columns(stores, bench, tmp_path, "spark")


def test_a_replay_takes_the_columns_that_the_execution_took_though_there_are_more_now(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = widened(stores, tmp_path)
    query = "select event_time, city, extra, c.* except (event_time, city, extra, system_time, "
    query += '"offset") from cities c'
    every = derivative(stores, "every", [cities], query)
    run(stores, every, bench)
    commit(cities, SetDataSchema(schema=from_arrow(WIDEST)), at=1100)
    add_rows(stores, cities, [(DAYS[2], "C", 3)], tmp_path, at=1200)
    run(stores, every, bench, at=2000)
    assert ["more" in row for row in read(stores, every)] == [False, False, True]
    assert replayed(stores, every, bench) == [(), (), ()]


def test_all_columns_of_an_input_that_grew_can_be_computed_anew(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = widened(stores, tmp_path)
    query = 'select * except ("offset", system_time) from cities'
    every = derivative(stores, "every", [cities], query)
    run(stores, every, bench)
    rewrite(stores, cities)
    receipt = run(stores, every, bench, at=2000, payload=ANEW)
    assert (receipt.was_reset, receipt.rows_added, receipt.has_more) == (True, 2, False)
    assert [(row["city"], row["extra"]) for row in read(stores, every)] == [
        ("A", None),
        ("B", None),
    ]
    assert replayed(stores, every, bench) == [(), ()]


def test_an_error_of_the_rows_is_told_as_such_though_columns_came_later(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = widened(stores, tmp_path)
    made = derivative(
        stores, "made", [cities], "select event_time, cast(city as bigint) as c from cities"
    )
    with pytest.raises(InvalidQuery, match="A"):
        run(stores, made, bench)


def test_the_old_rows_stay_if_the_new_ones_cannot_be_computed(
    stores: Stores, tmp_path: Path
) -> None:
    bench = node_of(stores, tmp_path, limits=IterationLimits(rows=1))
    cities = root(stores, "cities")
    add_rows(stores, cities, [(DAYS[0], "1", 1)], tmp_path, at=10)
    add_rows(stores, cities, [(DAYS[1], "2", 2)], tmp_path, at=11)
    made = derivative(
        stores, "made", [cities], "select event_time, cast(city as bigint) as c from cities"
    )
    run(stores, made, bench)
    rewrite(stores, cities)
    add_rows(stores, cities, [(DAYS[2], "x", 3)], tmp_path, at=600)
    head, note = made.head(), read_note(stores.objects, made.id)
    with pytest.raises(InvalidQuery, match=r"'x' .*made read offsets 2 to 2 of `cities`"):
        run(stores, made, bench, at=2000, payload=ANEW)
    assert [row["c"] for row in read(stores, made)] == [1, 2]
    assert (made.head(), read_note(stores.objects, made.id)) == (head, note)
    with refusing("InvalidInputInterval"):
        run(stores, made, bench, at=2001)


def test_one_move_of_the_head_replaces_the_old_rows_by_all_new_ones(
    stores: Stores, tmp_path: Path
) -> None:
    bench = node_of(stores, tmp_path, limits=IterationLimits(rows=1), seconds=0)
    cities = root(stores, "cities")
    for n in range(3):
        add_rows(stores, cities, [(DAYS[n], str(n), n)], tmp_path, at=10 + n)
    made = derivative(stores, "made", [cities], "select event_time, city from cities")
    while run(stores, made, bench).has_more:
        pass
    rewrite(stores, cities)
    before = len([move for move in stores.refs.moves(after=0) if move.dataset == made.id])
    receipt = run(stores, made, bench, at=2000, payload=ANEW)
    assert (receipt.iterations, receipt.rows_added, receipt.has_more) == (3, 3, False)
    moves = [move for move in stores.refs.moves(after=0) if move.dataset == made.id]
    assert len(moves) == before + 1
    assert [row["city"] for row in read(stores, made)] == ["0", "1", "2"]
    assert read_note(stores.objects, made.id).at(made.state().sequence_number or 0) is not None
