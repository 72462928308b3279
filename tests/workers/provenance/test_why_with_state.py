"""Why a row of a window, a ranking or a join is there: against a second look in plain Python."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.workers.derivatives import add_rows, derivative, moment, node_of, read, root
from tests.workers.provenance.asking import given_by, offsets, why
from throwaway import throwaway_stores

from odf_protocol.instant import Instant
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.stores import Stores
from odf_workers.jobs.transform.run import run_transform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HISTORIES = int(os.environ.get("ODF_TEST_WHY_HISTORIES", "1"))
"""Number of random histories for each form; 1,000 take hours."""
A, R = 0, 1
Rows = dict[int, dict[str, Any]]
"""The rows of an input that stand, by offset."""
Looked = Callable[[dict[str, Any], Rows, Rows], dict[str, set[int]]]


@dataclass(frozen=True)
class Form:
    """A query over `left` and `right`, the role asked for, and the second look at a row of it."""

    query: str
    look: Looked
    roles: tuple[str, ...] = ()


def day(row: dict[str, Any]) -> int:
    return int(row["event_time"].timestamp()) // 86_400


def seconds(row: dict[str, Any]) -> float:
    return float(row["event_time"].timestamp())


def group(row: dict[str, Any], left: Rows, right: Rows) -> dict[str, set[int]]:
    same = {at for at, one in left.items() if day(one) == day(row) and one["city"] == row["city"]}
    return {"left": same}


def filtered_group(row: dict[str, Any], left: Rows, right: Rows) -> dict[str, set[int]]:
    return {"left": {at for at in group(row, left, right)["left"] if left[at]["n"] > 2}}


def highest(row: dict[str, Any], left: Rows, right: Rows) -> dict[str, set[int]]:
    members = group(row, left, right)["left"]
    return {"left": {min(at for at in members if left[at]["n"] == row["top"])}}


def month(row: dict[str, Any], left: Rows, right: Rows) -> dict[str, set[int]]:
    return {"left": {at for at, one in left.items() if one["event_time"].month == 1}}


def best(row: dict[str, Any], left: Rows, right: Rows) -> dict[str, set[int]]:
    ranked = sorted(
        (at for at, one in left.items() if one["city"] == row["city"]),
        key=lambda at: (-left[at]["n"], at),
    )
    return {"left": set(ranked[: row["place"]])}


def pair(row: dict[str, Any], left: Rows, right: Rows) -> dict[str, set[int]]:
    lefts = {at for at, one in left.items() if one["n"] == row["n"] and same_place(one, row)}
    rights = set()
    if row["m"] is not None:
        rights = {
            at
            for at, one in right.items()
            if one["n"] == row["m"]
            and one["city"] == row["city"]
            and 0 <= seconds(one) - seconds(row) <= 86_400
        }
    return {"left": lefts, "right": rights}


def newest(row: dict[str, Any], left: Rows, right: Rows) -> dict[str, set[int]]:
    lefts = {at for at, one in left.items() if one["n"] == row["n"] and same_place(one, row)}
    before = [
        at
        for at, one in right.items()
        if one["city"] == row["city"] and seconds(one) <= seconds(row)
    ]
    return {"left": lefts, "right": {max(before, key=lambda at: (seconds(right[at]), at))}}


def same_place(one: dict[str, Any], row: dict[str, Any]) -> bool:
    return bool(one["city"] == row["city"] and one["event_time"] == row["event_time"])


WINDOW = "window(event_time, '1 day').start as event_time, city"
BY_DAY = "group by window(event_time, '1 day'), city"
FORMS = {
    "sum": Form(f"select {WINDOW}, sum(n) as total from left {BY_DAY}", group),
    "lists": Form(
        f"select {WINDOW}, collect_list(n) as all from left where n > 2 {BY_DAY}", filtered_group
    ),
    "greatest": Form(f"select {WINDOW}, max(n) as top from left {BY_DAY}", highest, ("source",)),
    "month": Form(
        "select date_trunc('MONTH', event_time) as event_time, count(*) as n from left group by 1",
        month,
    ),
    "ranking": Form(
        "select event_time, city, n, place from (select *, row_number() over "
        "(partition by city order by n desc) as place from left) where place <= 3",
        best,
    ),
    "interval": Form(
        "select l.event_time, l.city, l.n, r.n as m from left l left join right r "
        "on r.city = l.city and r.event_time between l.event_time "
        "and l.event_time + interval '1' day",
        pair,
    ),
    "as-of": Form(
        "select l.event_time, l.city, l.n, r.n as m from left l asof join right r "
        "match_condition (l.event_time >= r.event_time) on r.city = l.city",
        newest,
    ),
}


@pytest.fixture
def stores() -> Stores:
    return throwaway_stores()


@pytest.fixture
def bench(stores: Stores, spark: SparkSession, tmp_path: Path) -> Any:
    from odf_workers.engines.spark_engine.engine import SparkEngine
    from odf_workers.jobs.work.context import Engines

    engines = Engines(session=spark, first=SparkEngine(spark))
    return replace(node_of(stores, tmp_path), engines=engines)


class History:
    """Two inputs that grow, retract and come late, and a derivative of them."""

    def __init__(self, stores: Stores, bench: Any, folder: Path, query: str, seed: int) -> None:
        self.stores, self.bench, self.folder = stores, bench, folder
        self.chance = random.Random(seed)
        self.inputs = {name: root(stores, name) for name in ("left", "right")}
        self.made = derivative(stores, "made", list(self.inputs.values()), query, engine="spark")
        self.standing: dict[str, Rows] = {"left": {}, "right": {}}
        self.known: dict[int, dict[str, Rows]] = {}
        self.numbers = iter(range(1, 10_000))

    def run(self, at: int, *, ends: bool = False) -> None:
        """Both inputs get some rows, and the derivative is computed."""
        for name, dataset in self.inputs.items():
            rows, ops = self._some(name)
            mark = "2024-03-01T00:00:00Z" if ends else f"2024-01-{2 + at:02}T00:00:00Z"
            add_rows(self.stores, dataset, rows, self.folder, at=at * 10, watermark=mark, ops=ops)
        before = len(read(self.stores, self.made))
        run_transform(self.stores, self.made, TransformPayload(), self.bench, now=moment(1000 + at))
        now = {name: dict(rows) for name, rows in self.standing.items()}
        for row in read(self.stores, self.made)[before:]:
            self.known[row["offset"]] = now

    def _some(self, name: str) -> tuple[list[Any], list[int]]:
        rows, ops = [], []
        there = self.standing[name]
        offset = self.inputs[name].state().last_offset
        next_offset = 0 if offset is None else offset + 1
        for _ in range(self.chance.randint(4, 8)):
            if there and self.chance.random() < 0.2:
                gone = self.chance.choice(sorted(there))
                row, op = there.pop(gone)["raw"], R
            else:
                when = self.chance.randint(0, 6 * 24)
                text = f"2024-01-{1 + when // 24:02}T{when % 24:02}:00:00Z"
                # Every number is there once, but for those that count.
                row, op = (text, self.chance.choice("AB"), next(self.numbers)), A
                there[next_offset + len(rows)] = {
                    "raw": row,
                    "event_time": _time(text),
                    "city": row[1],
                    "n": row[2],
                }
            rows.append(row)
            ops.append(op)
        return rows, ops


def _time(text: str) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(Instant.parse(text).ns / 1e9, UTC)


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("form", FORMS)
def test_the_named_rows_are_those_of_a_second_look_and_give_the_row_alone(
    stores: Stores, bench: Any, tmp_path: Path, form: str, seed: int
) -> None:
    history = History(stores, bench, tmp_path, FORMS[form].query, seed * 1000 + len(form))
    for at in range(3):
        history.run(at, ends=at == 2)
    rows = [row for row in read(stores, history.made) if row["op"] in (0, 3)]
    assert rows
    for row in history.chance.sample(rows, min(HISTORIES, 2, len(rows))):
        step = why(stores, bench, history.made, row["offset"])
        assert step.check.verdict == "reproduced", (form, row, step.check)
        known = history.known[row["offset"]]
        wanted = FORMS[form].look(row, known["left"], known["right"])
        found = {name: set(each) for name, each in offsets(step, *FORMS[form].roles).items()}
        assert found == {"left": set(), "right": set(), **wanted}, (form, row)
        assert_least(history, row["offset"], offsets(step), found)


def assert_least(
    history: History,
    offset: int,
    every: dict[str, list[int]],
    found: dict[str, set[int]],
) -> None:
    """The rows alone give the row, and not without one of those that it needs."""
    given = partial(given_by, history.stores, history.bench, history.made, offset)
    assert given(every) == 1
    name, gone = history.chance.choice([(name, at) for name in found for at in sorted(found[name])])
    fewer = {one: [at for at in each if (one, at) != (name, gone)] for one, each in every.items()}
    assert given(fewer) == 0, (name, gone)
