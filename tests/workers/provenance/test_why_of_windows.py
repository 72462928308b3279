"""Why a row of a window is there: late rows, corrections, steps over steps, limits, pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.derivatives import add_rows, derivative, moment, node_of, read, root
from tests.workers.provenance.asking import offsets, why, wrong_footers
from throwaway import throwaway_stores

from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.stores import Stores
from odf_workers.engines.port.port import Untraced
from odf_workers.jobs.transform.run import run_transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
A, R, C, C_TO = range(4)
DAILY = (
    "select {hint} window(event_time, '1 day').start as event_time, city, sum(n) as total "
    "from cities group by window(event_time, '1 day'), city"
)
WORST = (
    "select event_time, city, total, place from (select *, row_number() over "
    "(partition by city order by total desc) as place from step1) where place <= 2"
)


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, spark: SparkSession, tmp_path: Path) -> Any:
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines

    engines = Engines(session=spark, first=SparkEngine(spark))
    return replace(node_of(stores, tmp_path), engines=engines)


def at(day: int, hour: int = 0) -> str:
    return f"2024-01-{day:02}T{hour:02}:00:00Z"


def computed(stores: Stores, bench: Any, dataset: Dataset, now: int) -> None:
    run_transform(stores, dataset, TransformPayload(), bench, now=moment(now))


def test_a_late_row_that_came_to_nothing_is_not_named_and_a_correction_names_what_it_changed(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    query = DAILY.format(hint="/*+ LATENESS('2 days') */")
    daily = derivative(stores, "daily", [cities], query, engine="spark")
    first = [(at(1, 1), "A", 1), (at(1, 2), "A", 2), (at(1, 3), "B", 5)]
    add_rows(stores, cities, first, tmp_path, at=10, watermark=at(2))
    computed(stores, bench, daily, 1000)
    # One that counts, one that takes a row back; then the window is closed for good.
    second = [(at(1, 4), "A", 10), (at(1, 2), "A", 2)]
    add_rows(stores, cities, second, tmp_path, at=20, watermark=at(5), ops=[A, R])
    computed(stores, bench, daily, 2000)
    add_rows(stores, cities, [(at(1, 5), "A", 100)], tmp_path, at=30, watermark=at(5))
    add_rows(stores, cities, [(at(4, 5), "A", 7)], tmp_path, at=40, watermark=at(6))
    computed(stores, bench, daily, 3000)
    told = [(row["op"], row["city"], row["total"]) for row in read(stores, daily)]
    assert told == [(A, "A", 3), (A, "B", 5), (C, "A", 3), (C_TO, "A", 11), (A, "A", 7)]
    found = {number: why(stores, bench, daily, number) for number in (0, 2, 3)}
    assert [offsets(step)["cities"] for step in found.values()] == [[0, 1], [0, 1], [0, 3]]
    assert {step.check.verdict for step in found.values()} == {"reproduced"}
    assert (found[0].row.undone_by, found[2].row.undoes) == (2, 0)
    assert found[0].how.forms == ("window",)


def test_a_wrong_bound_in_a_footer_costs_time_and_no_row(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    daily = derivative(stores, "daily", [cities], DAILY.format(hint=""), engine="spark")
    for hour in (1, 2):
        add_rows(stores, cities, [(at(1, hour), "A", hour)], tmp_path, at=hour, watermark=at(5))
    computed(stores, bench, daily, 1000)
    assert wrong_footers(bench, cities) == 2
    step = why(stores, bench, daily, 0)
    assert (offsets(step), step.check.verdict) == ({"cities": [0, 1]}, "reproduced")


def test_steps_over_steps_are_followed_down_to_the_rows_and_keep_what_only_ranks(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    worst = derivative(stores, "worst", [cities], DAILY.format(hint=""), WORST, engine="spark")
    days = [(at(day, hour), "A", day * 10 + hour) for day in (1, 2, 3) for hour in (1, 2)]
    add_rows(stores, cities, [*days, (at(1, 9), "B", 500)], tmp_path, at=10, watermark=at(9))
    computed(stores, bench, worst, 1000)
    second = next(row for row in read(stores, worst) if (row["city"], row["place"]) == ("A", 2))
    assert second["total"] == 43
    step = why(stores, bench, worst, second["offset"])
    assert step.how.forms == ("window", "ranking")
    assert offsets(step, "group") == {"cities": [2, 3]}
    assert offsets(step, "rank") == {"cities": [4, 5]}
    assert step.check.verdict == "reproduced"


def test_above_a_thousand_ranges_there_is_a_next_page(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    daily = derivative(stores, "daily", [cities], DAILY.format(hint=""), engine="spark")
    rows = [(at(1, 1), "AB"[n % 2], 1) for n in range(2_100)]
    add_rows(stores, cities, rows, tmp_path, at=10, watermark=at(2))
    computed(stores, bench, daily, 1000)
    (first,) = why(stores, bench, daily, 0).why
    assert (first.count, len(first.rows)) == (1050, 1000)
    assert first.next is not None
    (second,) = why(stores, bench, daily, 0, after=first.next).why
    assert (len(second.rows), second.next, second.count) == (50, None, 1050)
    assert second.rows[0].start == first.rows[-1].end + 2
    # Only rows that may be of the group count, half of all.
    enough, few = (replace(bench, provenance_rows=most) for most in (1_050, 1_049))
    assert why(stores, enough, daily, 0).check.verdict == "reproduced"
    check = why(stores, few, daily, 0).check
    assert (check.verdict, "more than 1049" in str(check.reason)) == ("unknown", True)


def test_rows_of_groups_that_the_query_does_not_select_each_name_a_group_that_gives_them(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    query = DAILY.format(hint="").replace("city, sum", "sum", 1)
    daily = derivative(stores, "daily", [cities], query, engine="spark")
    rows = [(at(1, 1), "A", 2), (at(1, 2), "A", 1), (at(1, 3), "B", 3), (at(1, 4), "C", 4)]
    add_rows(stores, cities, rows, tmp_path, at=10, watermark=at(2))
    computed(stores, bench, daily, 1000)
    told = {row["offset"]: row["total"] for row in read(stores, daily)}
    found = {n: (why(stores, bench, daily, n)) for n in told}
    named = {n: offsets(step)["cities"] for n, step in found.items()}
    assert sorted(told.values()) == [3, 3, 4]
    # Two groups give 3: either is enough, and none is named that gives another sum.
    assert {told[n]: rows for n, rows in named.items() if told[n] == 4} == {4: [3]}
    assert [named[n] for n in named if told[n] == 3] in ([[0, 1], [2]], [[2], [0, 1]])
    assert {step.check.verdict for step in found.values()} == {"reproduced"}


class Silent(Untraced):
    """The engine, without the operation that it has: as one at an address or in an image."""

    def __init__(self, engine: Any) -> None:
        self.name, self.version = engine.name, engine.version
        self.execute_transform = engine.execute_transform


def test_an_engine_that_keeps_rows_and_cannot_say_which_leaves_the_intervals_of_the_block(
    stores: Stores, bench: Any, tmp_path: Path
) -> None:
    cities = root(stores, "cities")
    daily = derivative(stores, "daily", [cities], DAILY.format(hint=""), engine="spark")
    add_rows(stores, cities, [(at(1, 1), "A", 1)], tmp_path, at=10, watermark=at(2))
    computed(stores, bench, daily, 1000)
    silent = replace(bench.engines, first=Silent(bench.engines.first))
    step = why(stores, replace(bench, engines=silent), daily, 0)
    assert (step.check.verdict, "cannot say which" in str(step.check.reason)) == ("unknown", True)
    assert offsets(step) == {"cities": []}
    assert (step.block.inputs[0].start, step.block.inputs[0].end) == (0, 0)
