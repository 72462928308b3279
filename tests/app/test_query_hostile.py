"""SQL that means ill: each way to files, networks, settings, memory and time is refused or ends,
and the service serves on beside it."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from processes import with_work
from service import Service, serving, ten_rows

from odf_node.service.query.query import Queries
from odf_storage.stores.ports.values import Visibility

MIB = 1 << 20
LIMITS = {
    "query_time_s": 200,
    "query_max_bytes": MIB,
    "query_process_bytes": 256 * MIB,
    "query_pool_share": 0.125,
    "query_text_bytes": 20_000,
    "signing_key": "7b" * 32,
}
ENDLESS = "select count(*) from generate_series(1, 1000000000000)"


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("hostile")
    with serving(folder / "node", query_links=folder / "links", **LIMITS) as service:
        service.keep(ten_rows(), "kamu/city")
        yield service


@pytest.fixture
def client(service: Service) -> Any:
    with service.http() as client:
        yield client
        began = time.monotonic()
        assert client.get("/system/health").status_code == 200
        assert client.get("/query", params={"query": "select 1"}).status_code == 200
        assert time.monotonic() - began < 60


def status_of(client: httpx.Client, query: str) -> int:
    return client.post("/query", json={"query": query}, timeout=60).status_code


@pytest.mark.parametrize(
    "query",
    [
        "select * from '/etc/passwd'",
        'select * from "/etc/passwd"',
        'select * from "file:///etc/passwd"',
        'select * from "../../../etc/passwd"',
        "select * from 's3://bucket/key.parquet'",
        'select * from "http://127.0.0.1/x.csv"',
        "select * from read_csv('/etc/passwd')",
        "select * from read_parquet('/etc/passwd')",
        "select * from parquet_metadata('/etc/passwd')",
        "select * from glob('/*')",
        "select pg_read_file('/etc/passwd')",
        "copy (select 1) to '/tmp/stolen.csv'",
        "with a as (select 1) copy a to '/tmp/stolen.csv'",
        "create external table t stored as csv location '/etc/passwd'",
        "create table t as select 1",
        "create view t as select 1",
        "create function f() returns int return 1",
        "drop table city",
        "insert into city values (1)",
        "with a as (select 1) insert into city select * from a",
        "select * into t from city",
        "delete from city",
        "update city set city = 'x'",
        "truncate table city",
        "set datafusion.execution.target_partitions = 64",
        "reset datafusion.execution.target_partitions",
        "show all",
        "show tables",
        "show columns from city",
        "describe city",
        "explain analyze select 1",
        "explain select 1",
        "prepare p as select 1",
        "execute p",
        "begin",
        "select 1; select 2",
        "select 1; drop table city",
        "select * from information_schema.tables",
        "select * from information_schema.df_settings",
        "select * from kamu.information_schema.tables",
        "select with_metadata(1, 'a', 'b')",
        "select * from city tablesample (1 rows)",
        "values (1)",
        "table city",
        "",
        "\x00",
    ],
)
def test_ways_out_of_a_query_are_refused(client, query):
    assert status_of(client, query) == 400


@pytest.mark.parametrize("count", [300, 800])
def test_a_long_union_of_a_reader_is_refused_with_what_to_do(client, count):
    query = " union all ".join(["select 1 as x"] * count)
    answer = client.post("/query", json={"query": query}, timeout=60)
    assert answer.status_code == 400
    assert "more than 200 parts of the query are nested in each other" in answer.text
    assert "put brackets around some dozens" in answer.text


@pytest.mark.parametrize(
    "query",
    [
        "select repeat('x', 2000000000)",
        "select repeat(repeat('x', 100000), 100000)",
        "select length(string_agg(repeat('x', 10000), '')) from generate_series(1, 1000000)",
        "select array_length(array_agg(value)) from generate_series(1, 1000000000)",
        "select repeat('x', 1000) from generate_series(1, 10000)",
    ],
)
def test_a_query_that_would_take_all_memory_ends_with_the_limit(client, query):
    answer = client.post("/query", json={"query": query, "limit": 1_000_000}, timeout=60)
    assert answer.status_code in (400, 413), answer.text


def test_a_query_that_would_never_end_is_ended(tmp_path):
    # of so many threads that its limit of processor time is not what ends it
    settings = LIMITS | {"query_time_s": 2, "query_threads": 64}
    with serving(tmp_path / "node", **settings) as service, service.http() as client:
        assert status_of(client, ENDLESS) == 413  # a client waits for a minute


@pytest.mark.parametrize(
    "query",
    [
        "select " + "1+" * 3_500 + "1",
        "select " + "(" * 150 + "1" + ")" * 150,
        "select '" + "x" * 20_000 + "'",
        "select " + ", ".join(f'"n{n}"' for n in range(1_100)),
    ],
)
def test_texts_beyond_what_a_planner_takes_are_refused(client, query):
    assert status_of(client, query) == 400


def test_a_private_dataset_cannot_be_guessed_by_any_spelling(service, client):
    service.keep(ten_rows(), "kamu/secret", Visibility.PRIVATE)
    for name in ('"secret"', '"kamu/secret"', 'kamu.kamu."secret"', '"secret@state"', "`secret`"):
        assert status_of(client, f"select * from {name}") == 400
        assert status_of(client, f"select (select max(city) from {name})") == 400


def _processes(queries: Queries) -> set[int]:
    """Those of queries; an answer does not wait for the end of its own."""
    return set(with_work(queries.nursery.pid))


def _running(queries: Queries, before: set[int]) -> int:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for child in _processes(queries) - before:
            if "Seccomp:\t2" in Path(f"/proc/{child}/status").read_text():
                return child
        time.sleep(0.02)
    raise AssertionError("no confined process of a query was seen")


def test_the_process_of_a_query_is_confined_and_knows_no_secret(service, client):
    assert status_of(client, "select 1") == 200
    before = _processes(service.node.queries)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(status_of, client, ENDLESS)
        child = _running(service.node.queries, before)
        status = Path(f"/proc/{child}/status").read_text()
        environment = Path(f"/proc/{child}/environ").read_bytes()
        os.kill(child, signal.SIGKILL)
        assert asking.result() == 413
    assert "NoNewPrivs:\t1" in status
    assert b"ODF_" not in environment
    assert b"7b7b" not in environment


def test_a_query_whose_client_left_is_ended(service, client):
    with pytest.raises(httpx.ReadTimeout):
        client.post("/query", json={"query": ENDLESS}, timeout=2)
    deadline = time.monotonic() + 90  # of 200
    settings = service.node.settings

    def left() -> list[object]:  # its folders are removed after its process
        folders = [*(settings.data / "queries").glob("*/*"), *settings.query_links.glob("*/*")]
        return [*_processes(service.node.queries), *folders]

    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left() == []


def test_the_next_query_is_answered_after_the_program_of_queries_was_killed(service, client):
    assert status_of(client, "select 1") == 200
    program = service.node.queries.nursery._process
    program.kill()
    program.wait(90)  # a query that a child took until then would end with it
    assert status_of(client, "select 1") == 200


def test_the_program_of_queries_starts_no_thread_of_the_engine_which_no_fork_inherits(
    service, client
):
    assert status_of(client, "select 1") == 200
    threads = Path(f"/proc/{service.node.queries.nursery.pid}/task").glob("*/comm")
    names = [each.read_text().strip() for each in threads]
    assert len([name for name in names if name != "jemalloc_bg_thd"]) == 1  # it forks safely


def test_askers_beyond_the_processes_neither_crash_nor_starve_the_others(service, client):
    query = 'select count(*) from city a, city b, city c where a."offset" < b."offset"'
    with ThreadPoolExecutor(32) as pool:
        asked = [pool.submit(status_of, client, query) for _ in range(32)]
        began = time.monotonic()
        assert client.get("/city/refs/head").status_code == 200
        assert time.monotonic() - began < 30
        found = {each.result() for each in asked}
    assert found <= {200, 429}
    assert 200 in found
