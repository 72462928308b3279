"""The same rows give the same answers, however they lie in slices and row groups: NaN, -0.0.

Tables of one column each lie beside each other in one dataset, whose slices are cut at random and
written as peers write them, with bounds of floats, or as this node does. Each door is asked before
and after a compaction of some of the slices: 50 filters, aggregates, groups and joins of each table
that it is asked about. `ODF_TEST_FLOAT_TABLES` is the number of tables, 20 if it is not set, of
which only some are asked about then.
"""

from __future__ import annotations

import json
import math
import os
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adbc_driver_flightsql import DatabaseOptions
from iceberg_clients import catalogue, duck
from service import Service, serving
from sharing_client import sharing_client
from table_made import TableMade
from tests.workers.derivatives import derivative, moment, node_of, read
from upkeep_parts import dataset_of

import odf_node
from odf_protocol.metadata.events import RawQueryRequest, SqlQueryStep, TransformSql
from odf_storage.datasets.job_payloads.compact_job import CompactPayload
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.stores.ports.values import ObjectKind
from odf_workers.engines.datafusion.engine import DataFusionEngine
from odf_workers.jobs.transform.run import run_transform
from odf_workers.jobs.upkeep.compact import run_compaction
from odf_workers.slices.write import parquet_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = int(os.environ.get("ODF_TEST_FLOAT_TABLES", "20"))
APART = 4 if "ODF_TEST_FLOAT_TABLES" in os.environ else 20
"""Distance between two columns of which queries ask in a turn: of all in two turns, or of few."""
BESIDE = 20
"""Tables in one dataset."""
NAN = math.nan
VALUES = [0.0, -0.0, 2.0, 3.5, -1.0, math.inf, -math.inf, NAN, math.copysign(NAN, -1), None]
WORDS = {
    0.0: "0.0",
    2.0: "2.0",
    3.5: "3.5",
    -1.0: "-1.0",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
    NAN: "NaN",
}
"""Values in comparisons, as texts that both engines cast to a float."""
OPERATORS: dict[str, Callable[[tuple[bool, float], tuple[bool, float]], bool]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
WORDS_OF_FILTERS = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
HINTED = {
    "equal": OPERATORS["="],
    "lessThan": OPERATORS["<"],
    "lessThanOrEqual": OPERATORS["<="],
    "greaterThan": OPERATORS[">"],
    "greaterThanOrEqual": OPERATORS[">="],
}
"""Words in hints of clients of Delta Sharing."""
Column = Sequence[float | None]


def key(value: float) -> tuple[bool, float]:
    """By which values are compared: NaN is above all numbers, -0.0 is 0.0."""
    return math.isnan(value), 0.0 if math.isnan(value) else value + 0.0


@dataclass(frozen=True)
class Filter:
    """A condition on a column in SQL, and what it says of a value that is not null."""

    sql: str
    holds: Callable[[float], bool]
    asked: str = ""
    """The same as a filter of `read`, if that has it."""

    def offsets(self, column: Column) -> list[int]:
        return [at for at, each in enumerate(column) if each is not None and self.holds(each)]


def filters() -> Iterator[Filter]:
    for word, compared in OPERATORS.items():
        for value, text in WORDS.items():
            yield Filter(
                f"X {word} cast('{text}' as double)",
                lambda each, c=compared, v=value: c(key(each), key(v)),
                f"X:{WORDS_OF_FILTERS[word]}:{text.lower().replace('infinity', 'inf')}",
            )
    zero_or_nan = {key(0.0), key(NAN)}
    yield Filter(
        "X in (cast('NaN' as double), cast('-0.0' as double))",
        lambda each: key(each) in zero_or_nan,
        "X:in:nan,-0.0",
    )
    yield Filter("X not in (cast(0 as double), 7)", lambda each: key(each) != key(0.0))
    yield Filter("X between 0 and 2", lambda each: key(0.0) <= key(each) <= key(2.0))
    yield Filter("not X > 2", lambda each: key(each) <= key(2.0))
    yield Filter("X is not null", lambda _: True, "X:notnull")
    yield Filter("case X when 0 then true else false end", lambda each: key(each) == key(0.0))
    yield Filter("X = -X", lambda each: key(each) in zero_or_nan)
    yield Filter("X * -1 = 0", lambda each: key(each) == key(0.0))


FILTERS = list(filters())


def shown(value: float | None) -> str | None:
    """A number as it is compared; sums of integers, counts and floats alike."""
    return None if value is None else "nan" if math.isnan(value) else repr(float(value) + 0.0)


def group_counts(column: Column) -> list[int]:
    return sorted(Counter(None if each is None else key(each) for each in column).values())


AGGREGATES: dict[str, Callable[[list[float]], float | None]] = {
    "min(X)": lambda known: min(known, key=key, default=None),
    "max(X)": lambda known: max(known, key=key, default=None),
    "count(X)": len,
    "count(distinct X)": lambda known: len(set(map(key, known))),
    "sum(case when X > 3 then 1 else 0 end)": lambda known: sum(key(v) > key(3.0) for v in known),
}
ROWS_OF: dict[str, Callable[[Column], list[int]]] = {
    "select count(*) as n from T group by X": group_counts,
    "select count(*) as n from (select distinct X from T)": lambda column: [
        len(group_counts(column))
    ],
    "select count(*) as n from T a join T b on a.X = b.X": lambda column: [
        sum(n * n for n in Counter(key(each) for each in column if each is not None).values())
    ],
    "select count(*) as n from (select X from T where X > 2 order by X desc limit 3)": (
        lambda column: [min(3, sum(each is not None and key(each) > key(2.0) for each in column))]
    ),
}


class Layout:
    """One dataset of tables, and how it is cut."""

    def __init__(self, stores: Any, number: str, chance: random.Random) -> None:
        self.chance, self.stores = chance, stores
        self.name = f"layout{number}"
        count = chance.randint(6, 24)
        few = [chance.sample(VALUES, chance.randint(1, 4)) for _ in range(BESIDE)]
        self.columns = {f"x{at}": [chance.choice(some) for _ in range(count)]
                        for at, some in enumerate(few)}  # fmt: skip
        schema = pa.schema([(name, pa.float64()) for name in self.columns])
        self.made = TableMade(stores, f"kamu/{self.name}", schema)
        cuts = sorted(chance.sample(range(1, count), chance.randint(0, min(5, count - 1))))
        for start, end in zip([0, *cuts], [*cuts, count], strict=True):
            ours = parquet_settings(self.made._whole(schema.empty_table(), []).schema)
            peers = {"write_page_index": chance.random() < 0.5}
            settings: dict[str, Any] = dict(ours) if chance.random() < 0.5 else peers
            self.made.layout = {**settings, "row_group_size": chance.randint(1, 6)}
            self.made.add(
                [
                    {name: each[at] for name, each in self.columns.items()}
                    for at in range(start, end)
                ]
            )

    def written_by_this_node(self) -> Layout:
        """The same rows as a dataset of which this node wrote all slices."""
        own = copy(self)
        own.name += "own"
        schema = self.made.columns
        own.made = TableMade(self.stores, f"kamu/{own.name}", schema)
        settings = dict(parquet_settings(own.made._whole(schema.empty_table(), []).schema))
        own.made.layout = {**settings, "row_group_size": 3}
        values = zip(*self.columns.values(), strict=True)
        rows = [dict(zip(self.columns, each, strict=True)) for each in values]
        own.made.add(rows[: len(rows) // 2])
        own.made.add(rows[len(rows) // 2 :])
        return own

    @property
    def dataset(self) -> Any:
        return dataset_of(self.stores, self.made.entry)

    def compact(self, scratch: Path) -> None:
        run_compaction(
            self.dataset,
            CompactPayload(max_slice_records=self.chance.choice([8, 16, 1000])),
            self.stores,
            scratch,
            attempts=3,
        )


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("layouts") / "node"
    with serving(folder, flight_port=0, turn_wait_s=60, query_terms=30_000) as service:
        yield service


@pytest.fixture
def layouts(service: Service, request: pytest.FixtureRequest) -> list[Layout]:
    numbers = range(max(1, TABLES // BESIDE))
    door = zlib.crc32(request.node.name.encode())
    return [Layout(service.node.stores, f"{door}x{at}", random.Random(at)) for at in numbers]


def both_ways(layout: Layout, scratch: Path) -> Iterator[None]:
    """Before and after a compaction."""
    yield
    layout.compact(scratch)
    yield


def asked(service: Service, query: str, *, by_flight: bool) -> list[tuple[Any, ...]]:
    if by_flight:
        options = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {service.token()}"}
        url = f"grpc://127.0.0.1:{service.node.flight.port}"
        with adbc.connect(url, options, autocommit=True) as db, db.cursor() as cursor:
            cursor.execute(query)
            return list(map(tuple, cursor.fetchall()))
    with service.http(service.token()) as http:
        answer = http.post("/query", json={"query": query, "dataFormat": "arrow"})
    assert answer.status_code == 200, answer.text
    table = pa.ipc.open_stream(answer.content).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


Answer = tuple[int, int | None, str | None]
"""Number of a question, offset or count, and value, of one row."""


def filtered(table: str, columns: Sequence[str], quote: str = '"') -> str:
    """The rows of each filter on some columns as one query."""
    return " union all ".join(
        f"select {at * 1000 + number} as q, {quote}offset{quote} as o, cast(null as double) as v, "
        f"event_time as t from {table} where {each.sql.replace('X', name)}"
        for at, name in enumerate(columns)
        for number, each in enumerate(FILTERS)
    )


def questions(table: str, columns: Sequence[str]) -> str:
    """All questions about some columns as one query."""
    newest = f"(select max(event_time) as t from {table})"
    found = [filtered(table, columns)]
    for at, name in enumerate(columns):
        for number, sql in enumerate(AGGREGATES, at * 1000 + 100):
            value = sql.replace("X", name)
            found.append(
                f"select {number} as q, cast(null as bigint) as o, cast({value} as double) as v, "
                f"max(event_time) as t from {table}"
            )
        for number, sql in enumerate(ROWS_OF, at * 1000 + 200):
            rows = sql.replace("T", table).replace("X", name)
            found.append(
                f"select {number} as q, n as o, cast(null as double) as v, t "
                f"from ({rows}) as counted cross join {newest} as newest"
            )
    return " union all ".join(found)


def offsets(columns: Sequence[Column]) -> list[Answer]:
    """What is right for all filters on some columns."""
    return [
        (at * 1000 + number, offset, None)
        for at, column in enumerate(columns)
        for number, each in enumerate(FILTERS)
        for offset in each.offsets(column)
    ]


def answers(columns: Sequence[Column]) -> list[Answer]:
    """What is right for all questions about some columns."""
    found = offsets(columns)
    for at, column in enumerate(columns):
        known = [each for each in column if each is not None]
        for number, aggregate in enumerate(AGGREGATES.values(), at * 1000 + 100):
            found.append((number, None, shown(aggregate(known))))
        for number, counted in enumerate(ROWS_OF.values(), at * 1000 + 200):
            found += [(number, count, None) for count in counted(column)]
    return in_order(found)


def in_order(rows: Iterable[Answer]) -> list[Answer]:
    return sorted(rows, key=lambda row: (row[0], -1 if row[1] is None else row[1]))


def told(rows: Iterable[Sequence[Any]]) -> list[Answer]:
    """Rows of a client as answers."""
    return in_order((q, o, shown(v)) for q, o, v, *_ in rows)


def parts_of(layout: Layout, turn: int) -> Iterator[list[str]]:
    """Names of columns, and of others in another turn. They come two at a time, because a query is
    bounded in its depth."""
    names = list(layout.columns)
    for at in range(2 * (turn % 2), len(names), APART):
        yield names[at : at + 2]


def test_filters_of_reads(service: Service, layouts: list[Layout], tmp_path: Path) -> None:
    """Each filter is asked of some column over HTTP, and of one in a copy."""
    asked = [each for each in FILTERS if each.asked]
    with service.http(service.token()) as http:
        for layout in layouts:
            for turn, _ in enumerate(both_ways(layout, tmp_path)):
                copy = tmp_path / f"{layout.name}x{turn}"
                odf_node.pull(f"{service.url}/{layout.name}", copy, token=service.token())
                pulled = odf_node.open(copy)
                for each in asked:
                    name = layout.chance.choice(list(layout.columns))
                    params = {"filter": each.asked.replace("X", name), "format": "ndjson"}
                    answer = http.get(f"/{layout.name}/read", params=params)
                    assert answer.status_code == 200, answer.text
                    found = [json.loads(line)["offset"] for line in answer.text.splitlines()]
                    assert found == each.offsets(layout.columns[name]), params
                name = layout.chance.choice(list(layout.columns))
                for each in asked:
                    rows = pulled.arrow(filter=each.asked.replace("X", name), columns=["offset"])
                    assert rows["offset"].to_pylist() == each.offsets(layout.columns[name]), each


@pytest.mark.parametrize("by_flight", [False, True])
def test_queries(service: Service, layouts: list[Layout], tmp_path: Path, by_flight: bool) -> None:
    """About a column each time: all parts of a union run at once, each with memory of its own, of
    which a query has a share."""
    for layout in layouts:
        for turn, _ in enumerate(both_ways(layout, tmp_path), int(by_flight)):
            for name in chain.from_iterable(parts_of(layout, turn)):
                query = questions(f'"{layout.name}"', [name])
                found = told(asked(service, query, by_flight=by_flight))
                assert found == answers([layout.columns[name]]), name


def derived(layout: Layout, engine: Any, scratch: Path, names: Sequence[str]) -> list[Answer]:
    """What a derivative has of all filters: it may ask no aggregates without a window."""
    stores, quote = layout.stores, "`" if engine.name == "spark" else '"'
    asked = filtered(layout.name, names, quote)
    query = f"select q, o, v, t as event_time from ({asked}) as asked"
    made = derivative(stores, f"m{uuid4().hex[:24]}", [layout.dataset], query, engine=engine.name)
    bench = node_of(stores, scratch)
    bench = replace(bench, engines=replace(bench.engines, first=engine))
    run_transform(stores, made, TransformPayload(), bench, now=moment(10**9))
    return told((row["q"], row["o"], row["v"]) for row in read(stores, made))


def test_derivatives_on_datafusion(layouts: list[Layout], tmp_path: Path) -> None:
    engine = DataFusionEngine()
    for layout in layouts:
        for turn, _ in enumerate(both_ways(layout, tmp_path)):
            for names in parts_of(layout, turn):
                found = derived(layout, engine, tmp_path, names)
                assert found == offsets([layout.columns[each] for each in names]), names


@pytest.mark.spark
def test_derivatives_on_spark(layouts: list[Layout], spark: SparkSession, tmp_path: Path) -> None:
    """About a column each time: Spark takes a second and more for these plans."""
    from odf_workers.engines.spark_engine.engine import SparkEngine

    engine = SparkEngine(spark)
    for layout in layouts:
        for _ in both_ways(layout, tmp_path):
            name = layout.chance.choice(list(layout.columns))
            found = derived(layout, engine, tmp_path, [name])
            assert found == offsets([layout.columns[name]]), (layout.name, name)


def test_preprocessing_of_files_with_bounds(tmp_path: Path) -> None:
    rows = pa.table({"x": [20.0, NAN, 20.0]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    request = RawQueryRequest(
        input_data_paths=(str(tmp_path / "rows.parquet"),),
        transform=TransformSql(
            queries=(SqlQueryStep(query="select x from input where x <> 7"),), engine="datafusion"
        ),
        output_data_path=str(tmp_path / "out.parquet"),
    )
    DataFusionEngine().execute_raw_query(request)
    assert repr(pq.read_table(tmp_path / "out.parquet").to_pydict()) == repr(rows.to_pydict())


PYICEBERG: dict[str, Callable[[float], bool]] = {
    "< 3.0": lambda v: v < 3.0,
    "> 2.0": lambda v: v > 2.0,
    ">= 3.5": lambda v: v >= 3.5,
    "<= -1.0": lambda v: v <= -1.0,
    "= 0.0": lambda v: v == 0.0,
    "is nan": math.isnan,
    "is not nan": lambda v: not math.isnan(v),
}
"""Its filters compare NaN by the rules of Arrow."""


def test_clients_of_iceberg_read_slices_of_this_node(
    service: Service, layouts: list[Layout]
) -> None:
    """DuckDB compares as the engines do."""
    catalog = catalogue(service, service.token())
    with duck(service, service.token()) as db:
        for layout in layouts:
            own = layout.written_by_this_node()
            scanned = catalog.load_table(f"kamu.{own.name}")
            for text, holds in PYICEBERG.items():
                name = layout.chance.choice(list(layout.columns))
                column = layout.columns[name]
                found = scanned.scan(row_filter=f"{name} {text}").to_arrow()["offset"].to_pylist()
                wanted = [at for at, v in enumerate(column) if v is not None and holds(v)]
                assert sorted(found) == wanted, (name, text)
            for names in (*parts_of(layout, 0), *parts_of(layout, 1)):
                rows = db.execute(questions(f"odf.kamu.{own.name}", names)).fetchall()
                assert told(rows) == answers([layout.columns[each] for each in names]), names


def framed(value: float | None) -> str | None:
    return None if value is None or math.isnan(value) else shown(value)


def test_the_client_of_delta_sharing_reads_each_value(
    service: Service, layouts: list[Layout], tmp_path: Path
) -> None:
    """It filters no rows itself; the node leaves out files that have no row of a hint. In its
    frames a null is a NaN."""
    with sharing_client(service, service.token(), tmp_path) as client:
        for layout in layouts:
            for _ in both_ways(layout, tmp_path):
                table = f"kamu.default.{layout.name}"
                for is_delta in (False, True):
                    found = client.load(table, use_delta_format=is_delta)
                    at = found["columns"].index("offset")
                    rows = sorted(found["rows"], key=lambda row: row[at])
                    for name, column in layout.columns.items():
                        place = found["columns"].index(name)
                        values = [row[place] for row in rows]
                        assert list(map(framed, values)) == list(map(framed, column)), name
                name = layout.chance.choice(list(layout.columns))
                for word, compared in HINTED.items():
                    hint = {"op": word, "children": [
                        {"op": "column", "name": name, "valueType": "double"},
                        {"op": "literal", "value": "2.0", "valueType": "double"},
                    ]}  # fmt: skip
                    found = client.load(table, jsonPredicateHints=json.dumps(hint))
                    at = found["columns"].index("offset")
                    wanted = [
                        offset for offset, v in enumerate(layout.columns[name])
                        if v is not None and compared(key(v), key(2.0))
                    ]  # fmt: skip
                    assert {row[at] for row in found["rows"]}.issuperset(wanted), (name, word)


def test_slices_of_this_node_have_no_bounds_of_floats(layouts: list[Layout]) -> None:
    own = layouts[0].written_by_this_node()
    for part in own.made.parts:
        with own.dataset.open_object(ObjectKind.DATA, part.physical_hash) as stream:
            group = pq.ParquetFile(pa.BufferReader(stream.read())).metadata.row_group(0)
        for chunk in map(group.column, range(group.num_columns)):
            has_bounds = chunk.statistics is not None and chunk.statistics.has_min_max
            assert has_bounds is (chunk.physical_type != "DOUBLE"), chunk.path_in_schema
