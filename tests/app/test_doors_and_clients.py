"""Every client reads the rows that `GET …/read` reads, by every door that docs/reading.md names.

The table of that page and the one here are the same. Many slices take each client that reads files
as many requests, which is what they are for: the module takes longer than others. What the node
itself reads is one answer to all clients, so one of them asks it for many slices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from door_tables import MANY, SLICES, TAKEN, frame_rows, in_order, make_door_tables, read_rows
from iceberg_clients import catalogue, duck, load_extensions
from reading_page import PAGE
from service import Service, serving
from sharing_client import SharingClient, run_beside, sharing_client

import odf_node
from odf_node.public.filesystem import OdfFileSystem

Rows = list[dict[str, Any]]
FACTS, CHANGELOG = "facts", "changelog"
ANONYMOUS = {"username": "anonymous", "password": ""}


@dataclass(frozen=True, eq=False)
class Node:
    """Where clients read."""

    service: Service
    sharing: SharingClient
    folder: Path

    def url(self, name: str) -> str:
        return f"{self.service.url}/{name}"

    def place(self, name: str) -> str:
        return f"odf://{self.service.url.removeprefix('http://')}/{name}"

    def urls(self, name: str) -> list[str]:
        with self.service.http() as http:
            return http.get(f"/{name}/files?format=txt").text.split()

    @cache  # noqa: B019 - of the one node of this module
    def rows(self, name: str, projection: str) -> Rows:
        return read_rows(self.service, name, projection)

    def bucket(self) -> pafs.S3FileSystem:
        return pafs.S3FileSystem(
            anonymous=True, endpoint_override=self.service.url, region="us-east-1"
        )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("client")
    for name in OdfFileSystem.protocol:  # as the entry point of the distribution does it
        fsspec.register_implementation(name, OdfFileSystem, clobber=True)
    with serving(tmp_path_factory.mktemp("node"), flight_port=0) as service:
        make_door_tables(service)
        with sharing_client(service, service.token(), folder) as sharing:
            yield Node(service, sharing, folder)
    OdfFileSystem.clear_instance_cache()


def _http(node: Node, name: str) -> Rows:
    with node.service.http() as http:
        answer = http.get(f"/{name}/read", params={"format": "ndjson"})
    return [json.loads(line) for line in answer.text.splitlines()]


def _pandas_read(node: Node, name: str) -> Rows:
    url = f"{node.url(name)}/read?format=parquet"
    return frame_rows(pd.read_parquet(url, dtype_backend="pyarrow"))


def _pandas_files(node: Node, name: str) -> Rows:
    return frame_rows(pd.read_parquet(node.place(name), dtype_backend="pyarrow"))


def _pandas_changelog(node: Node, name: str) -> Rows:
    return frame_rows(pd.read_parquet(f"{node.place(name)}@changelog", dtype_backend="pyarrow"))


def _polars_files(node: Node, name: str) -> Rows:
    return pl.scan_parquet(node.urls(name)).collect().to_dicts()


def _polars_iceberg(node: Node, name: str) -> Rows:
    table = catalogue(node.service, None).load_table(f"kamu.{name}")
    keys = {key: text for key, text in table.io.properties.items() if key.startswith("s3.")}
    frame = pl.scan_iceberg(table, reader_override="native", storage_options=keys)
    return frame.collect().to_dicts()


def _duckdb_files(node: Node, name: str) -> Rows:
    return _by_duckdb("FROM read_parquet(?, union_by_name=true)", [node.urls(name)])


def _duckdb_csv(node: Node, name: str) -> Rows:
    return _by_duckdb(f"FROM read_csv('{node.url(name)}/read?format=csv')")


def _duckdb_parquet(node: Node, name: str) -> Rows:
    return _by_duckdb(f"FROM read_parquet('{node.url(name)}/read?format=parquet')")


def _sql(table: str) -> Callable[[Node, str], Rows]:
    """By Flight SQL; `table` is what follows the name."""

    def read(node: Node, name: str) -> Rows:
        address = f"grpc://127.0.0.1:{node.service.node.flight.port}"
        with (
            adbc.connect(address, ANONYMOUS, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f'select * from "{name}{table}"')
            return cursor.fetch_arrow_table().to_pylist()

    return read


def _duckdb_iceberg(node: Node, name: str) -> Rows:
    with duck(node.service, None) as db:
        return db.execute(f"FROM odf.kamu.{name}").to_arrow_table().to_pylist()


def _duckdb_lake(node: Node, name: str) -> Rows:
    import ducklake_clients  # it skips where the extension is not installed

    with ducklake_clients.duck(node.service) as db:
        return db.execute(f"FROM odf.kamu.{name}").to_arrow_table().to_pylist()


def _duckdb_s3(node: Node, name: str) -> Rows:
    endpoint = node.service.url.removeprefix("http://")
    secret = (
        "CREATE SECRET (TYPE s3, PROVIDER config, REGION 'us-east-1', URL_STYLE 'path', "
        f"USE_SSL false, ENDPOINT '{endpoint}')"
    )
    return _by_duckdb(f"FROM read_parquet('s3://{name}/data/*')", before=secret)


def _by_duckdb(query: str, given: Any = (), *, before: str = "") -> Rows:
    with duckdb.connect() as db:
        load_extensions(db)
        db.execute("SET TimeZone = 'UTC'")
        if before:
            db.execute(before)
        return db.execute(query, given).to_arrow_table().to_pylist()


ARROW_HTTP = """
import json, os, sys, urllib.request
import fsspec
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from plain_values import plain

urls = urllib.request.urlopen(sys.argv[1] + "/files?format=txt").read().decode().split()
http = fsspec.filesystem("http")
newest = pq.read_schema(urls[-1], filesystem=http)
rows = ds.dataset(urls, filesystem=http, schema=newest).to_table().to_pylist()
print(json.dumps(plain(rows)), flush=True)
os._exit(0)
"""
"""Ends at once: Arrow's threads let go of fsspec late, and abort a program that ends by itself."""


def _arrow_http(node: Node, name: str) -> Rows:
    """In an environment that has aiohttp, which fsspec reads http by."""
    return json.loads(run_beside(ARROW_HTTP, node.folder, node.url(name)))


def _arrow_files(node: Node, name: str) -> Rows:
    files, path = fsspec.url_to_fs(node.place(name))
    schema = odf_node.open(node.url(name)).schema
    return pads.dataset(path, filesystem=files, schema=schema).to_table().to_pylist()


def _arrow_s3(node: Node, name: str) -> Rows:
    return pads.dataset(f"{name}/data", filesystem=node.bucket()).to_table().to_pylist()


def _fsspec_files(node: Node, name: str) -> Rows:
    files = fsspec.open_files(f"{node.place(name)}/*.parquet")
    tables = []
    for each in files:
        with each as file:
            tables.append(pq.read_table(file))
    return pa.concat_tables(tables).to_pylist()


def _pyiceberg(node: Node, name: str) -> Rows:
    table = catalogue(node.service, None).load_table(f"kamu.{name}")
    return table.scan().to_arrow().to_pylist()


def _opened(how: str, *, verify: bool = False, **asked: Any) -> Callable[[Node, str], Rows]:
    def read(node: Node, name: str) -> Rows:
        data = odf_node.open(node.url(name), verify=verify)
        frame = getattr(data, how)(**asked)
        match how:
            case "arrow":
                return frame.to_pylist()
            case "pandas":
                return frame_rows(frame)
            case "polars":
                return frame.to_dicts()
        return frame.to_arrow_table().to_pylist()

    return read


def _shared(schema: str, *, is_delta: bool | None) -> Callable[[Node, str], Rows]:
    def read(node: Node, name: str) -> Rows:
        found = node.sharing.load(f"kamu.{schema}.{name}", use_delta_format=is_delta)
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]

    return read


@dataclass(frozen=True)
class Way:
    """How a client reads by a door, and which rows that are."""

    read: Callable[[Node, str], Rows]
    rows: str
    only: tuple[str, ...] = ()
    """Columns that come as they are; none named: all of them."""
    is_like_another: bool = False
    """Whether many slices go the way of another one of these."""


PLAIN = ("offset", "op", "id", "name", "weight", "open")
WAYS = {
    ("any", "`read?format=ndjson`"): Way(
        _http, FACTS, ("offset", "op", "id", "tags", "name"), True
    ),
    ("pandas", "`read?format=parquet`"): Way(_pandas_read, FACTS, is_like_another=True),
    ("pandas", "`odf://`"): Way(_pandas_files, FACTS),
    ("pandas", "`odf://…@changelog`"): Way(_pandas_changelog, CHANGELOG, is_like_another=True),
    ("Polars", "URLs of files"): Way(_polars_files, CHANGELOG),
    ("Polars", "Iceberg"): Way(_polars_iceberg, FACTS),
    ("DuckDB", "URLs of files"): Way(_duckdb_files, CHANGELOG),
    ("DuckDB", "`read?format=csv`"): Way(_duckdb_csv, FACTS, PLAIN, is_like_another=True),
    ("DuckDB", "`read?format=parquet`"): Way(_duckdb_parquet, FACTS, is_like_another=True),
    ("DuckDB", "Iceberg"): Way(_duckdb_iceberg, FACTS),
    ("DuckDB", "DuckLake"): Way(_duckdb_lake, FACTS),
    ("DuckDB", "S3"): Way(_duckdb_s3, CHANGELOG),
    ("pyarrow", "URLs of files"): Way(_arrow_http, CHANGELOG),
    ("pyarrow", "`odf://`"): Way(_arrow_files, FACTS),
    ("pyarrow", "S3"): Way(_arrow_s3, CHANGELOG),
    ("fsspec", "`odf://`"): Way(_fsspec_files, FACTS),
    ("pyiceberg", "Iceberg"): Way(_pyiceberg, FACTS),
    ("`odf_node.open`", "`.arrow()`"): Way(_opened("arrow"), FACTS),
    ("`odf_node.open`", "`.pandas()`"): Way(_opened("pandas"), FACTS, is_like_another=True),
    ("`odf_node.open`", "`.polars()`"): Way(_opened("polars"), FACTS, is_like_another=True),
    ("`odf_node.open`", "`.duckdb()`"): Way(_opened("duckdb"), FACTS, is_like_another=True),
    ("`odf_node.open`", "`verify=True`"): Way(_opened("arrow", verify=True), FACTS),
    ("`odf_node.open`", "`.arrow(changelog=True)`"): Way(
        _opened("arrow", changelog=True), CHANGELOG, is_like_another=True
    ),
    ("ADBC", "Flight SQL, `name`"): Way(_sql(""), FACTS),
    ("ADBC", "Flight SQL, `name@changelog`"): Way(_sql("@changelog"), CHANGELOG),
    ("delta-sharing", "`default`"): Way(_shared("default", is_delta=None), FACTS),
    ("delta-sharing", "`changelog`, plain"): Way(
        _shared("changelog", is_delta=False), CHANGELOG, is_like_another=True
    ),
    ("delta-sharing", "`changelog`, delta"): Way(_shared("changelog", is_delta=True), CHANGELOG),
}
ELSEWHERE = {
    ("PySpark", '`format("odf")`'): (
        "tests/e2e/test_spark_source.py",
        "test_many_slices_and_rows_taken_back_are_read",
    ),
    ("`odf-node` of npm", "`.rows()`"): (
        "tests/app/test_typescript.py",
        "test_many_slices_and_rows_taken_back_are_read_and_verified",
    ),
    ("mlcroissant", "Croissant"): (
        "tests/app/test_doors_and_clients.py",
        "test_mlcroissant_reads_what_its_types_hold",
    ),
}
"""Clients of the page that are tried by other tests: file and name."""
TRIED = [
    pytest.param(way, name, id=f"{client} {door} {name}".replace("`", ""))
    for name in (TAKEN, MANY)
    for (client, door), way in WAYS.items()
    if name == TAKEN or not way.is_like_another
]


@pytest.mark.parametrize(("way", "name"), TRIED)
def test_a_client_reads_the_rows_of_the_node(node: Node, way: Way, name: str, monkeypatch: Any):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    wanted = node.rows(name, way.rows)
    found = in_order(way.read(node, name))
    assert len(found) == len(wanted) == {MANY: SLICES, TAKEN: 6 if way.rows == FACTS else 10}[name]
    if way.only:
        found, wanted = (
            [{column: row[column] for column in way.only} for row in rows]
            for rows in (found, wanted)
        )
    assert found == wanted


CROISSANT = """
import json, os, sys
import mlcroissant
dataset = mlcroissant.Dataset(sys.argv[1])
rows = [{str(k): str(v) for k, v in row.items()} for row in dataset.records("records")]
print(json.dumps(rows), flush=True)
os._exit(0)
"""
"""It leaves threads behind, which now and then abort an interpreter that ends in order."""


def test_mlcroissant_reads_what_its_types_hold(node: Node):
    for name in (TAKEN, MANY):
        url = f"{node.url(name)}/croissant.json"
        found = json.loads(run_beside(CROISSANT, node.folder, url))
        wanted = node.rows(name, FACTS)
        assert [int(row["records/offset"]) for row in found] == [row["offset"] for row in wanted]
        assert [int(row["records/id"]) for row in found] == [row["id"] for row in wanted]
        assert [int(row["records/op"]) for row in found] == [row["op"] for row in wanted]


def test_the_page_names_what_is_tried_and_which_rows_that_gives():
    section = PAGE.read_text().partition("## Clients and doors\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|", section, re.MULTILINE)[1:]
    told = {(client, door): rows for client, door, rows in lines if not client.startswith("-")}
    assert set(told) == {*WAYS, *ELSEWHERE}
    assert {each: told[each] for each in WAYS} == {
        each: f"`{way.rows}`" for each, way in WAYS.items()
    }


@pytest.mark.parametrize(("file", "name"), ELSEWHERE.values())
def test_a_client_that_is_tried_elsewhere_is_tried_there(file: str, name: str):
    assert f"def {name}" in (Path(__file__).parents[2] / file).read_text()
