"""Queries over HTTP and Flight SQL, next to bare DataFusion and to DuckDB over the same files.

    python benchmarks/query.py [--rows 1000000,10000000] [--slices 1,1000]

`--rows 100000000` takes 1,000 slices, 2.4 GB of disk and a minute or two to make. Times are medians
of warm requests, bare ones in one partition as the node's are, by an engine that keeps the footers
of files in memory; `new` is the same engine with nothing kept, which is what a process of its own
for each query can reach; DuckDB has one thread and keeps footers as well. The last ratio (*) is to
DuckDB in processor time, which the load of the machine hardly changes. Of short queries the
difference in milliseconds tells more than the ratio. Each answer is compared with that of the bare
engine. Goals: a point filter over 1,000 slices takes less than 50 ms with what the node knows of
slices, and what takes the bare engine more than a second takes the node less than 20 % more.

Then, of up to 1 M rows, 32 callers ask point filters at once, beside a pull of all objects and
without.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import adbc_driver_flightsql.dbapi as adbc
import duckdb
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext
from processes import cpu_seconds
from service import Service, serving
from wide_rows import GROUPS, WideRows

from odf_storage.datasets.kartothek.own_index import refresh_own_index

GOAL_POINT_MS, GOAL_OVERHEAD = 50.0, 1.2
LONG_S = 1.0
TIMES = 15
SPENT_S = 10.0
"""Of one query; then fewer repeats have to do."""
ASKERS, ASKED_S = 32, 10.0
SLICE_ROWS = 20_000_000
"""Most rows that are made at once; more are measured in more slices only."""
INDEXED_ROWS = 1_000_000
"""Datasets of more rows get no index of a column that is different in each row."""
Ask = Callable[[str], Any]


@dataclass(frozen=True)
class Query:
    """A query by its name; `at` is another number each time."""

    name: str
    text: Callable[[WideRows, int], str]


QUERIES = (
    Query("count", lambda _made, _at: "select count(*) as n from wide"),
    Query("min, max", lambda _made, _at: 'select min("key") as a, max("key") as b from wide'),
    Query("newest", lambda _made, _at: 'select * from wide order by "offset" desc limit 10'),
    Query(
        "point, offset", lambda made, at: f'select * from wide where "offset" = {at % made.rows}'
    ),
    Query(
        "point, key",
        lambda made, at: f'select * from wide where "key" = {made.key(at % made.rows)}',
    ),
    Query("group by", lambda _made, _at: "select grp, sum(amount) as s from wide group by grp"),
    Query(
        "join",
        lambda _made, _at: (
            "select n.amount, count(*) as c from wide w join names n on n.grp = w.grp "
            "where n.key < 100 group by n.amount"
        ),
    ),
)
POINT = QUERIES[4]


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--rows", default="1000000,10000000")
    asked.add_argument("--slices", default="1,1000")
    words = asked.parse_args()
    sizes = [
        (int(rows), int(slices))
        for rows in words.rows.split(",")
        for slices in words.slices.split(",")
        if int(rows) <= SLICE_ROWS * int(slices)
    ]
    for rows, slices in sizes:
        with tempfile.TemporaryDirectory() as folder:
            limits = {"query_process_bytes": 4 << 30, "turn_wait_s": 60, "query_time_s": 600}
            with serving(Path(folder) / "data", flight_port=0, **limits) as service:
                compared(service, rows, slices)


def compared(service: Service, rows: int, slices: int) -> None:
    """All queries on one pair of datasets."""
    began = time.perf_counter()
    stores = service.node.stores
    made = WideRows(stores, "kamu/wide", rows=rows, slices=slices)
    names = WideRows(stores, "kamu/names", rows=GROUPS, slices=1)
    print(
        f"{rows:,} rows in {slices} slice(s), {made.size / 1e6:.0f} MB, built in "
        f"{time.perf_counter() - began:.0f} s"
    )
    head = "".join(f"{name:>10}" for name in WAYS)
    print(f"  {'':<22}{head} HTTP/bare /DuckDB*  slices")
    with asking(service, made, names) as ways:
        for query in QUERIES:
            show(query.name, query, made, ways)
        if rows <= INDEXED_ROWS:
            refresh_own_index(made.dataset, stores.projections, ["key"])
            show("point, key, indexed", POINT, made, ways)
    if slices > 1 and rows <= INDEXED_ROWS:
        crowd(service, made)


WAYS = ("bare", "new", "DuckDB", "HTTP", "Flight")


@contextmanager
def asking(service: Service, made: WideRows, names: WideRows) -> Iterator[list[Ask]]:
    """What asks a query in each of the ways, in their order."""
    engine = bare_engine(made, names)
    with service.http() as client, flight(service) as cursor, duckdb_over(made, names) as duck:
        yield [
            lambda text: answered_by(engine, text),
            lambda text: answered_by(bare_engine(made, names), text),
            lambda text: duck.execute(text).to_arrow_table(),
            lambda text: over_http(client, text),
            lambda text: fetched(cursor, text),
        ]


def duckdb_over(*datasets: WideRows) -> duckdb.DuckDBPyConnection:
    """DuckDB alone, in this process, over the files in place."""
    duck = duckdb.connect()
    duck.execute("SET threads = 1; SET parquet_metadata_cache = true")
    for made in datasets:
        paths = [str(path) for path in made.paths]
        duck.execute(f"CREATE VIEW {made.entry.alias.name} AS FROM read_parquet({paths})")
    return duck


def show(name: str, query: Query, made: WideRows, ways: Sequence[Ask]) -> None:
    """A line: medians of each way, and what is held against the goals."""
    found = dict(zip(WAYS, (took(way, query, made) for way in ways), strict=True))
    bare, ours = found["bare"], found["HTTP"]
    opened = ours.answer.headers["odf-slices"]
    tables = [pa.Table.from_batches(bare.answer), found["DuckDB"].answer, found["Flight"].answer]
    rows = [ours.answer.json()["output"]["data"], *(table.to_pylist() for table in tables)]
    assert all(numbers(each) == numbers(rows[0]) for each in rows), name
    ratio = ours.seconds / bare.seconds
    notes = ""
    if name.startswith("point") and opened.startswith("1/") and opened != "1/1":
        notes = verdict(ours.seconds * 1000 < GOAL_POINT_MS)
    elif bare.seconds > LONG_S:
        notes = f"{100 * (ratio - 1):.0f} % over {LONG_S:g} s " + verdict(ratio < GOAL_OVERHEAD)
    times = "".join(f"{1000 * each.seconds:>8.1f}ms" for each in found.values())
    work = ours.cpu / found["DuckDB"].cpu
    print(f"  {name:<22}{times} {ratio:>8.2f} {work:>8.2f}   {opened:<10}{notes}")


def verdict(holds: bool) -> str:
    return "holds the goal" if holds else "MISSES THE GOAL"


def numbers(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """The numbers of an answer, whatever the order of its rows; times are texts over HTTP."""
    return sorted([v for v in row.values() if isinstance(v, int | float)] for row in rows)


@dataclass(frozen=True)
class Took:
    """The median of warm requests by the clock, what each takes of the processor (the service and
    its processes together), and the answer that every way has to give."""

    seconds: float
    cpu: float
    answer: Any


def took(ask: Ask, query: Query, made: WideRows, times: int = TIMES) -> Took:
    answer = ask(query.text(made, 1))
    seconds, first, spent = [], time.perf_counter(), cpu_seconds(os.getpid())
    for at in range(times):
        if at >= 3 and time.perf_counter() - first > SPENT_S:
            break
        began = time.perf_counter()
        ask(query.text(made, 104_729 * (at + 2)))
        seconds.append(time.perf_counter() - began)
    cpu = (cpu_seconds(os.getpid()) - spent) / len(seconds)
    return Took(statistics.median(seconds), cpu, answer)


def bare_engine(*datasets: WideRows) -> SessionContext:
    """DataFusion alone, in this process, over the files in place."""
    settings = {"datafusion.execution.target_partitions": "1"}
    context = SessionContext(SessionConfig(settings))
    for made in datasets:
        folder = made.paths[0].parent
        context.register_parquet(
            str(made.entry.alias.name),
            f"{folder}/",
            file_extension="",
            schema=pq.read_schema(made.paths[0]),
        )
    return context


def answered_by(context: SessionContext, text: str) -> Any:
    return context.sql(text).collect()


def over_http(client: httpx.Client, text: str) -> httpx.Response:
    answer = client.post("/query", json={"query": text, "limit": 10_000})
    assert answer.status_code == 200, answer.text
    return answer


def flight(service: Service) -> Any:
    anonymous = {"username": "anonymous", "password": ""}
    url = f"grpc://127.0.0.1:{service.node.flight.port}"
    return _Closing(adbc.connect(url, anonymous, autocommit=True))


class _Closing:
    """A cursor whose connection is closed with it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __enter__(self) -> Any:
        self._cursor = self._connection.cursor()
        return self._cursor

    def __exit__(self, *_: object) -> None:
        self._cursor.close()
        self._connection.close()


def fetched(cursor: Any, text: str) -> Any:
    cursor.execute(text)
    return cursor.fetch_arrow_table()


def crowd(service: Service, made: WideRows) -> None:
    """Many callers at once, alone and beside a transfer; and the transfer alone."""
    alone = asked_by_many(service, made)
    transfer = transferred(service, made)
    done = threading.Event()
    rates: list[float] = []

    def keep_on() -> None:
        while not done.is_set():
            rates.append(transferred(service, made))

    thread = threading.Thread(target=keep_on)
    thread.start()
    beside = asked_by_many(service, made)
    done.set()
    thread.join()
    for name, found in (("alone", alone), ("beside a transfer", beside)):
        tenth = sorted(found)[int(0.95 * len(found))]
        print(
            f"  {ASKERS} callers {name:<18} {len(found) / ASKED_S:6.1f} queries/s, "
            f"p50 {1000 * statistics.median(found):.0f} ms, p95 {1000 * tenth:.0f} ms"
        )
    print(
        f"  transfer alone {transfer:.0f} MB/s, "
        f"beside the callers {statistics.mean(rates):.0f} MB/s"
    )


def asked_by_many(service: Service, made: WideRows, seconds: float = ASKED_S) -> list[float]:
    """Seconds of each point filter that was answered."""
    end = time.perf_counter() + seconds

    def keep_asking(number: int) -> list[float]:
        found = []
        with service.http() as client:
            while time.perf_counter() < end:
                began = time.perf_counter()
                over_http(client, POINT.text(made, number + 37 * len(found)))
                found.append(time.perf_counter() - began)
        return found

    with ThreadPoolExecutor(ASKERS) as askers:
        return [each for found in askers.map(keep_asking, range(ASKERS)) for each in found]


def transferred(service: Service, made: WideRows) -> float:
    """MB/s at which one client gets the objects."""
    began, size = time.perf_counter(), 0
    with service.http() as client:
        for name in made.names[:200]:
            size += len(client.get(f"/wide/data/{name}").content)
    return size / 1e6 / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
