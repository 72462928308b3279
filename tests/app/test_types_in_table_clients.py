"""Each type through clients of tables: the value, or what docs/reading.md says becomes of it.

A table has one column of one type, since most of these doors refuse a table for one column.
"""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from door_types import NS, TYPES, table_of
from iceberg_clients import catalogue, duck, load_extensions
from plain_values import plain
from polars.exceptions import PanicException
from pyiceberg.exceptions import RESTError
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from service import Service, serving
from sharing_client import ClientFailed, SharingClient, run_beside, sharing_client
from table_made import TableMade

import odf_node
from odf_protocol.errors import NodeError
from odf_storage.stores.ports.values import Visibility

MORE: dict[str, tuple[Any, Any]] = {
    "`UInt8`": (pa.uint8(), 255),
    "`Float16`": (pa.float16(), 0.5),
    "`Timestamp` without a zone": (pa.timestamp("us"), NS // 1_000),
    "`Time` in milliseconds": (pa.time32("ms"), datetime.time(1, 2, 3, 4_000)),
    "`Time` in nanoseconds, all digits": (pa.time64("ns"), 3_723_000_004_005),
    "`Timestamp` in another zone": (pa.timestamp("us", "Europe/Berlin"), NS // 1_000),
    "`Timestamp` in a zone that is an offset": (pa.timestamp("us", "+05:30"), NS // 1_000),
    "`Float64`, `-0.0`": (pa.float64(), -0.0),
    "`Date` in the year 1": (pa.date32(), datetime.date(1, 1, 1)),
    "`String` with a zero byte": (pa.string(), "a\0é😀"),
    "`List` of fixed length": (pa.list_(pa.int32(), 2), [1, None]),
}
VALUES = {**{name: told[:2] for name, told in TYPES.items()}, **MORE}
TABLES = {name: f"t{at}" for at, name in enumerate(VALUES)}
PLACES = pa.schema(
    [("geometry", pa.string()), *((TABLES[name], kind) for name, (kind, _) in VALUES.items())]
)
"""GeoParquet takes a table with a place in it, and refuses none for its other columns."""
FRAME = """
import json, sys
import geopandas
from plain_values import plain
told = {}
for name in sys.argv[2:]:
    try:
        frame = geopandas.read_parquet(sys.argv[1], columns=["geometry", "offset", name])
    except Exception as refused:
        told[name] = str(refused)
    else:
        told[name] = plain(frame.sort_values("offset")[name].tolist())
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Each table has a row with the value of its type, and one with null."""
    with serving(tmp_path_factory.mktemp("node"), flight_port=0) as service:
        for name, (kind, value) in VALUES.items():
            columns = pa.schema([("value", kind)])
            made = TableMade(
                service.node.stores, f"kamu/{TABLES[name]}", columns, visibility=Visibility.PUBLIC
            )
            made.add([{"value": value}, {}])
        made = TableMade(service.node.stores, "kamu/places", PLACES, visibility=Visibility.PUBLIC)
        place = {"geometry": '{"type": "Point", "coordinates": [1.5, -2]}'}
        made.add([{**place, **{TABLES[name]: value for name, (_, value) in VALUES.items()}}, place])
        yield service


@pytest.fixture(scope="module")
def sharing(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharingClient]:
    with sharing_client(service, service.token(), tmp_path_factory.mktemp("client")) as sharing:
        yield sharing


Read = Callable[[str], list[Any]]
"""From the name of a table to its values in the order of rows; a refusal is raised."""


def by_pyiceberg(service: Service) -> Read:
    known = catalogue(service, None)
    return lambda table: _values(known.load_table(f"kamu.{table}").scan().to_arrow())


def by_duckdb(service: Service) -> Read:
    def read(table: str) -> list[Any]:
        with duck(service, None) as db:
            return _values(db.execute(f"FROM odf.kamu.{table}").to_arrow_table())

    return read


def by_polars_iceberg(service: Service) -> Read:
    known = catalogue(service, None)

    def read(name: str) -> list[Any]:
        table = known.load_table(f"kamu.{name}")
        keys = {key: text for key, text in table.io.properties.items() if key.startswith("s3.")}
        rows = pl.scan_iceberg(table, reader_override="native", storage_options=keys)
        return _values(rows.select("offset", "value").collect().to_arrow())

    return read


def by_duckdb_of_files(service: Service) -> Read:
    def read(table: str) -> list[Any]:
        with service.http() as http, duckdb.connect() as db:
            urls = http.get(f"/{table}/files", params={"format": "txt"}).text.split()
            load_extensions(db)
            db.execute("SET TimeZone = 'UTC'")
            return _values(db.execute("FROM read_parquet(?)", [urls]).to_arrow_table())

    return read


def by_python(service: Service, how: str) -> Read:
    def read(table: str) -> list[Any]:
        data = odf_node.open(f"{service.url}/{table}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that DuckDB cuts instants
            frame = getattr(data, how)(columns=["offset", "value"])
        if how == "pandas":
            return list(plain(frame.sort_values("offset")["value"].tolist()))
        found = frame.to_arrow() if how == "polars" else frame.to_arrow_table()
        return _values(found)

    return read


def by_adbc(service: Service) -> Read:
    def read(table: str) -> list[Any]:
        address = f"grpc://127.0.0.1:{service.node.flight.port}"
        anonymous = {"username": "anonymous", "password": ""}
        with (
            adbc.connect(address, anonymous, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f'select * from "{table}"')
            return _values(cursor.fetch_arrow_table())

    return read


def by_sharing(sharing: SharingClient, *, is_delta: bool) -> Read:
    def read(table: str) -> list[Any]:
        found = sharing.load(f"kamu.default.{table}", use_delta_format=is_delta)
        rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
        return [row["value"] for row in sorted(rows, key=lambda row: row["offset"])]

    return read


def by_polars(service: Service, folder: Path) -> Read:
    """polars-ducklake takes no catalogue over HTTP, so it gets a copy."""
    reader = pytest.importorskip("polars_ducklake")
    pytest.importorskip("duckdb_engine", reason="needs duckdb-engine")
    from ducklake_clients import lake

    file = folder / "copied.ducklake"
    with service.http() as http:
        file.write_bytes(http.get(lake(service)["catalogue"]).content)

    def read(table: str) -> list[Any]:
        rows = reader.scan_ducklake(f"duckdb:///{file}", table, schema="kamu")
        return _values(rows.select("offset", "value").collect().to_arrow())

    return read


def by_geopandas(service: Service, folder: Path) -> Read:
    with service.http() as http:
        answer = http.get("/places/read", params={"format": "geoparquet"})
    file = folder / "places.parquet"
    file.write_bytes(answer.raise_for_status().content)
    found = json.loads(run_beside(FRAME, folder, str(file), *TABLES.values()))

    def read(table: str) -> list[Any]:
        if isinstance(found[table], str):
            raise ClientFailed(found[table])
        return list(found[table])

    return read


def _values(table: pa.Table) -> list[Any]:
    return list(table.sort_by("offset")["value"])


READERS: dict[str, Callable[[Service, SharingClient, Path], Read]] = {
    "pyiceberg": lambda service, *_: by_pyiceberg(service),
    "DuckDB, Iceberg": lambda service, *_: by_duckdb(service),
    "delta-sharing, plain": lambda _, sharing, __: by_sharing(sharing, is_delta=False),
    "delta-sharing, `delta`": lambda _, sharing, __: by_sharing(sharing, is_delta=True),
    "ADBC": lambda service, *_: by_adbc(service),
    "geopandas": lambda service, _, folder: by_geopandas(service, folder),
    "polars-ducklake": lambda service, _, folder: by_polars(service, folder),
    "Polars, Iceberg": lambda service, *_: by_polars_iceberg(service),
    "DuckDB, files": lambda service, *_: by_duckdb_of_files(service),
    "`.pandas()`": lambda service, *_: by_python(service, "pandas"),
    "`.polars()`": lambda service, *_: by_python(service, "polars"),
    "`.duckdb()`": lambda service, *_: by_python(service, "duckdb"),
}
REFUSALS = (
    RESTError,
    ClientFailed,
    duckdb.Error,
    pl.exceptions.PolarsError,
    UnsupportedPyArrowTypeException,
    NodeError,
    PanicException,
)

NAMED = ("value", "precision", "non-zero nanoseconds", "+05:30", "Expected all lists to be of size")
"""What a refusal says: the name of the column, or what is wrong with its type or value."""


def told(name: str, read: Read) -> str:
    """What becomes of the value of a type."""
    try:
        shown, null = read(TABLES[name])
    except REFUSALS as refused:
        is_named = any(each in str(refused) for each in NAMED)
        return "refused" if is_named else f"refused: {refused}"
    assert (null.as_py() if isinstance(null, pa.Scalar) else null) is None
    kind, value = VALUES[name]
    wanted = pa.scalar(value, kind)
    if not isinstance(shown, pa.Scalar):
        return _told_of_plain(shown, wanted)
    if pa.types.is_timestamp(kind):
        found_ns, wanted_ns = (
            each.cast(pa.timestamp("ns", "UTC")).value for each in (shown, wanted)
        )
        cut = found_ns == wanted_ns // 1_000 * 1_000
        return "same" if found_ns == wanted_ns else "cut to microseconds" if cut else "other"
    if pa.types.is_time(kind):
        found_ns, wanted_ns = (each.cast(pa.time64("ns")).value for each in (shown, wanted))
        cut = found_ns == wanted_ns // 1_000 * 1_000
        return "same" if found_ns == wanted_ns else "cut to microseconds" if cut else "other"
    if pa.types.is_floating(kind):
        return "same" if str(shown.as_py()) == str(wanted.as_py()) else "other"
    return "same" if shown.as_py() == wanted.as_py() else "other"


def _told_of_plain(shown: Any, wanted: pa.Scalar) -> str:
    """Of a frame of pandas that was sent as JSON."""
    if pa.types.is_timestamp(wanted.type):
        exact = pd.Timestamp(wanted.cast(pa.timestamp("ns", "UTC")).value, tz="UTC").isoformat()
        if shown == exact:
            return "same"
        return "cut to microseconds" if exact.startswith(shown.partition("+")[0]) else "other"
    if pa.types.is_integer(wanted.type) and shown != wanted.as_py():
        return "rounded" if shown == int(float(wanted.as_py())) else "other"
    return "same" if shown == plain(wanted.as_py()) else "other"


@pytest.mark.parametrize("reader", READERS)
def test_each_client_shows_each_value_as_the_page_says(
    service, sharing, tmp_path, monkeypatch, reader
):
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    said = table_of("### Values in clients of tables", 1 + len(READERS))
    titles = said.pop("value")
    read = READERS[reader](service, sharing, tmp_path)
    shown = {name: told(name, read) for name in VALUES}
    assert {n: dict(zip(titles, e, strict=True))[reader] for n, e in said.items()} == shown
