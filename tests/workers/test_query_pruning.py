"""Slices that queries leave out: the answer is the one that all slices give."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext
from sliced import TEXTS, learned, random_slices, view_of_slices

from odf_protocol.codec.manifests import to_data
from odf_protocol.columns.arrow_schema import from_arrow
from odf_storage.datasets.query.messages import QueryTable, Slice, TableView
from odf_storage.datasets.query.tables import link, make_folders
from odf_workers.query.conditions import needed
from odf_workers.query.offsets import number_of_rows
from odf_workers.query.process import SETTINGS
from odf_workers.query.tables import base_names, register

NAMES = {"t": TableView.CHANGELOG, "t@state": TableView.STATE, "t@facts": TableView.FACTS}


class Asking:
    """A dataset whose slices lie in files, with what is known of them."""

    def __init__(self, folder: Path, slices: list[list[dict[str, Any]]], key: str = "city") -> None:
        folder.mkdir(exist_ok=True)
        view, source = view_of_slices(slices, key=(key,))
        self.folder, self.count = folder, 0
        assert view.schema is not None
        self.paths = []
        for data, _ in view.slices:
            path = folder / str(data.physical_hash)
            path.write_bytes(source.objects[data.physical_hash])
            self.paths.append(str(path))
        self.table = QueryTable(
            names=NAMES,
            schema=to_data(from_arrow(view.schema)),
            offset="offset",
            operation="op",
            system_time="system_time",
            key=[key],
            slices=[
                Slice(each.offset_interval.start, each.offset_interval.end)
                for each, _ in view.slices
            ],
            folder=str(folder),
            bounds={name: list(known) for name, known in learned(view).bounds.items()},
        )

    def context(self) -> SessionContext:
        """The engine with a table that has no files yet, in `scratch`."""
        self.count += 1
        self.scratch = self.folder / f"scratch-{self.count}"
        self.scratch.mkdir()
        make_folders(self.scratch, 1)
        context = SessionContext(
            SessionConfig({**SETTINGS, "datafusion.execution.target_partitions": "1"})
        )
        register(context, [self.table], self.scratch)
        return context

    def rows(self, query: str, *, pruned: bool) -> tuple[list[str], int]:
        """Rows of the answer, and how many slices were opened for it."""
        result = self.context().sql(query)
        found = needed(result, [self.table], base_names([self.table]), no_index)
        opened = found.get(0, []) if pruned else list(range(len(self.paths)))
        link(self.scratch, 0, [self.paths[at] for at in opened])
        table = pa.Table.from_batches(result.collect(), result.schema())
        return sorted(repr(row) for row in table.to_pylist()), len(opened)


def no_index(_table: int, _key: str) -> None:
    raise AssertionError("the question names no index")


def literal(column: str, text: str) -> str:
    if column in ("offset", "op", "pop", "price"):
        return text
    if column == "is_big":
        return text.lower()
    if column == "raw":
        return f"X'{text}'"
    if column == "rate":
        return f"arrow_cast('{text}', 'Float32')"
    return "'" + text.replace("'", "''") + "'"


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.5:
        parts = [condition(chance, depth - 1) for _ in range(chance.randint(2, 3))]
        joined = f" {chance.choice(['AND', 'OR'])} ".join(f"({part})" for part in parts)
        return f"NOT ({joined})" if chance.random() < 0.1 else joined
    column = chance.choice(list(TEXTS))
    values = [literal(column, text) for text in TEXTS[column]]
    value, name = chance.choice(values), f'"{column}"'
    kinds = [f"{name} = {value}", f"{value} = {name}", f"{name} IN ({', '.join(values)})"]
    kinds += [f"{name} IN ({value}, NULL)", f"{name} <> {value}", f"{name} IS NULL"]
    kinds += [f"{name} NOT IN ({value})", f"{name} IS DISTINCT FROM {value}"]
    if column not in ("is_big", "raw"):
        kinds += [f"{name} {chance.choice(['<', '<=', '>', '>='])} {value}"] * 3
        kinds += [f"{value} {chance.choice(['<', '<=', '>', '>='])} {name}"]
    return chance.choice(kinds)


def queries(chance: random.Random) -> Iterator[str]:
    for _ in range(12):
        name = chance.choice(list(NAMES))
        where = condition(chance)
        yield f'SELECT * FROM "{name}" WHERE ({where})'
        yield (
            f'SELECT a."offset", b.pop FROM "t" a JOIN "{name}" b ON a.city = b.city '
            f"WHERE b.pop > {chance.choice([-4, 0, 5])}"
        )
        yield (
            f'SELECT count(*) FROM "{name}" WHERE ({where}) AND '
            "pop >= (SELECT min(pop) FROM \"t\" WHERE city = 'a')"
        )
        order, some = chance.choice(["DESC", "ASC"]), chance.randint(0, 6)
        yield f'SELECT * FROM "{name}" ORDER BY "offset" {order} LIMIT {some} OFFSET {some // 2}'
        yield f'SELECT * FROM t WHERE ({where}) ORDER BY "offset" {order} LIMIT {some}'
        yield f"SELECT * FROM t LIMIT {some} OFFSET {some // 2}"


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_is_the_same_whether_slices_are_left_out_or_not(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    asking = Asking(tmp_path / "t", random_slices(chance, 8))
    left_out = 0
    for query in queries(chance):
        everything, total = asking.rows(query, pruned=False)
        found, opened = asking.rows(query, pruned=True)
        assert found == everything, query
        left_out += total - opened
    assert left_out > 0


def one_city_each(folder: Path) -> Asking:
    rows = [[{"city": f"c{at}", "pop": at, "op": 0}] for at in range(5)]
    return Asking(folder, rows)


@pytest.mark.parametrize(
    ("where", "opened"),
    [
        ("city = 'c2'", 1),
        ("'c2' = city", 1),
        ("city IN ('c1', 'c3', 'zzz', 'y', 'x')", 2),
        ("city = 'c1' OR city = 'c2' OR city = 'c4'", 3),
        ("city = 'c1' OR pop > 3", 2),
        ("city = 'c1' AND pop > 3", 0),
        ("city BETWEEN 'c1' AND 'c2'", 2),
        ('"offset" >= 3', 2),
        ('"offset" < 1 OR "offset" = 4', 2),
        ("city = 'c1' OR pop IS NULL", 5),
        ("city <> 'c1'", 5),
        ("NOT city = 'c1'", 5),
        ("upper(city) = 'C1'", 5),
        ("city LIKE 'c1%x'", 5),
        ("pop + 1 = 2", 5),
        ("rate > 1", 5),
        ("true", 5),
    ],
)
def test_conditions_leave_out_slices_where_they_can(
    tmp_path: Path, where: str, opened: int
) -> None:
    asking = one_city_each(tmp_path / "t")
    query = f"SELECT pop FROM t WHERE {where}"
    assert asking.rows(query, pruned=True)[1] == opened


@pytest.mark.parametrize(
    ("query", "opened"),
    [
        ("SELECT pop FROM \"t@state\" WHERE city = 'c2'", 1),
        ('SELECT pop FROM "t@state" WHERE pop = 2', 5),
        ("SELECT pop FROM \"t@facts\" WHERE city = 'c2' AND pop = 2", 1),
        ('SELECT pop FROM "t@facts" WHERE "offset" = 2', 5),
        ("SELECT a.pop FROM t a JOIN t b ON a.rate = b.rate WHERE a.city = 'c1' AND b.pop = 3", 2),
        ("SELECT pop FROM t WHERE pop = (SELECT max(pop) FROM t) AND city = 'c1'", 5),
    ],
)
def test_below_a_view_only_what_cannot_change_it_leaves_slices_out(
    tmp_path: Path, query: str, opened: int
) -> None:
    assert one_city_each(tmp_path / "t").rows(query, pruned=True)[1] == opened


@pytest.mark.parametrize(
    ("query", "opened"),
    [
        ('SELECT * FROM t ORDER BY "offset" DESC LIMIT 2', 2),
        ('SELECT pop FROM t AS u ORDER BY u."offset" DESC, pop LIMIT 1 OFFSET 2', 3),
        ('SELECT * FROM t ORDER BY "offset" LIMIT 1', 1),
        ("SELECT * FROM t LIMIT 3", 3),
        ("SELECT * FROM t LIMIT 0", 0),
        ('SELECT pop AS "offset" FROM t ORDER BY "offset" DESC LIMIT 2', 5),
        ("SELECT * FROM t ORDER BY pop DESC LIMIT 2", 5),
        ('SELECT * FROM t WHERE pop < 9 ORDER BY "offset" DESC LIMIT 2', 5),
        ('SELECT * FROM "t@facts" ORDER BY "offset" DESC LIMIT 2', 5),
        ("(SELECT * FROM t LIMIT 1) UNION ALL SELECT * FROM t WHERE pop = 1", 2),
    ],
)
def test_rows_at_one_end_of_a_table_open_the_slices_that_have_them(
    tmp_path: Path, query: str, opened: int
) -> None:
    asking = one_city_each(tmp_path / "t")
    found, few = asking.rows(query, pruned=True)
    assert (found, few) == (asking.rows(query, pruned=False)[0], opened)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT count(*) FROM t", 5),
        ("SELECT count(1) AS a, count(*) AS b FROM t AS u", 5),
        ('SELECT count("offset") FROM t', None),
        ("SELECT count(city) FROM t", None),
        ("SELECT count(DISTINCT city) FROM t", None),
        ("SELECT count(*) + 1 FROM t", None),
        ("SELECT count(*) FROM t WHERE pop > 1", None),
        ("SELECT count(*) FILTER (WHERE pop > 1) FROM t", None),
        ("SELECT count(*) FROM t GROUP BY city", None),
        ("SELECT count(*) FROM t HAVING count(*) > 9", None),
        ("SELECT count(*) FROM (SELECT * FROM t LIMIT 2)", None),
        ("SELECT count(*) FROM t LIMIT 0", None),
        ("SELECT count(*) FROM t CROSS JOIN t AS u", None),
        ("SELECT count(*) FROM t UNION ALL SELECT count(*) FROM t", None),
        ('SELECT count(*) FROM "t@state"', None),
        ("SELECT 1 FROM t", None),
    ],
)
def test_only_a_count_of_all_rows_of_a_table_is_told_by_its_chain(
    tmp_path: Path, query: str, count: int | None
) -> None:
    asking = one_city_each(tmp_path / "t")
    plan = asking.context().sql(query).optimized_logical_plan()
    assert number_of_rows(plan, [asking.table], base_names([asking.table])) == count


def test_floats_that_the_engine_orders_in_its_own_way_hide_no_row(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    asking = one_city_each(folder)
    negative = np.array([0xFFF8000000000000], np.uint64).view(np.float64)[0]
    odd = [negative, -0.0, float("nan"), 0.0]
    slices = [[{"city": "a", "rate": value, "op": 0}] for value in odd]
    asking = Asking(folder, slices)
    for at, path in enumerate(asking.paths):
        table = pq.read_table(path)
        exact = pa.array(np.array([odd[at]], np.float64)).cast(pa.float32())
        place = table.schema.get_field_index("rate")
        pq.write_table(table.set_column(place, "rate", exact), path)
    for where in ("rate < 0", "rate <= -1", "rate > 5", "rate >= 0", "rate = 0", "rate IN (0, 1)"):
        query = f'SELECT "offset" FROM t WHERE {where}'
        assert asking.rows(query, pruned=True)[0] == asking.rows(query, pruned=False)[0], where


def test_floats_that_are_equal_are_one_key(tmp_path: Path) -> None:
    rates = [-0.0, float("nan"), 0.0, float("nan"), 1.5, None, None]
    slices = [[{"rate": rate, "pop": at, "op": 0}] for at, rate in enumerate(rates)]
    asking = Asking(tmp_path / "t", slices, key="rate")
    found, _ = asking.rows('SELECT pop FROM "t@state"', pruned=True)
    assert found == [repr({"pop": at}) for at in (2, 3, 4, 6)]
