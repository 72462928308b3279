"""Each type through DuckDB's lake, OData and MCP: what a client gets is what the page says.

A door shows a value with all its digits, or says that it does not.
"""

from __future__ import annotations

import asyncio
import datetime
import struct
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from door_types import TYPES, table_of
from service import Service, serving
from table_made import TableMade

from odf_storage.stores.ports.values import Visibility

COLUMNS = {name: f"c{at}" for at, name in enumerate(TYPES)}
ROW = {COLUMNS[name]: told[1] for name, told in TYPES.items()}
GONE = {COLUMNS["`Int64`"]: 5}
"""A row that was taken back."""
R = 1


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node")) as service:
        columns = pa.schema([(COLUMNS[name], told[0]) for name, told in TYPES.items()])
        made = TableMade(service.node.stores, "kamu/every", columns, visibility=Visibility.PUBLIC)
        made.add([ROW, {}, GONE])
        made.add([GONE], [R])
        yield service


def page() -> dict[str, list[str]]:
    """What the page says of each type: DuckLake, OData, MCP."""
    found = table_of("### DuckLake, OData, MCP", 4)
    return {name: each for name, each in found.items() if name.startswith("`")}


def test_the_page_says_something_of_every_type():
    assert set(page()) == set(TYPES)


def test_duckdb_shows_each_type_of_a_lake_as_the_page_says(service):
    from ducklake_clients import duck

    with duck(service) as db:
        table = db.execute('FROM odf.kamu."every" ORDER BY "offset" LIMIT 1')
        names = [each[0] for each in table.description]
        shown = dict(zip(names, table.fetchone(), strict=True))
        kinds = dict(
            db.execute(
                "SELECT column_name, data_type FROM duckdb_columns()"
                " WHERE database_name = 'odf' AND table_name = 'every'"
            ).fetchall()
        )
        said = dict(db.execute("SELECT part, reason FROM odf.main.left_out").fetchall())
    for name, (told, _, _) in page().items():
        column = COLUMNS[name]
        if told == "left out":
            assert column not in kinds
            assert f"column {column}" in said
            continue
        assert f"`{kinds[column]}`" in told, name
        if "cut" in told:
            assert "microsecond" in said[f"column {column}"]
    assert shown[COLUMNS["`Int64`"]] == 2**53 + 1
    assert shown[COLUMNS["`UInt64`"]] == 2**64 - 1
    assert shown[COLUMNS["`Float64`, `NaN`"]] != shown[COLUMNS["`Float64`, `NaN`"]]
    for name in ("`Decimal`", "`Date`", "`Time` in microseconds", "`Binary`", "`List` of lists"):
        assert shown[COLUMNS[name]] == ROW[COLUMNS[name]], name


def test_odata_has_the_types_of_the_page_and_every_digit(service):
    spaces = {"e": "http://docs.oasis-open.org/odata/ns/edm"}
    with service.http() as http:
        tree = ElementTree.fromstring(http.get("/odata/kamu/$metadata").text)
        asked = {"accept": "application/json;IEEE754Compatible=true"}
        row = http.get("/odata/kamu/every", headers=asked).json()["value"][0]
    kind = tree.find(".//e:EntityType[@Name='every']", spaces)
    types = {each.get("Name"): each.get("Type") for each in kind.findall("e:Property", spaces)}
    for name, (_, told, _) in page().items():
        column = COLUMNS[name]
        if told == "left out":
            assert column not in types
            continue
        plain = types[column].replace("Edm.", "").replace(f"odf.every__{column}", "complex type")
        assert f"`{plain}`" in told or plain in told, name
        wanted = TYPES[name][2]
        is_wide = plain in ("Int64", "Decimal")
        assert row[column] == (str(wanted) if is_wide else wanted), name


def test_tools_say_every_value_with_all_its_digits(service):
    pytest.importorskip("mcp", reason="needs mcp, the SDK")
    body = {"name": "sample_rows", "arguments": {"dataset": "every"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}
    with service.http() as http:
        headers = {"accept": "application/json, text/event-stream"}
        answer = http.post("/mcp", json=message, headers=headers).json()["result"]
    row = answer["structuredContent"]["rows"][0]
    assert {name: row[COLUMNS[name]] for name in TYPES} == {n: t[3] for n, t in TYPES.items()}
    for name, (_, _, told) in page().items():
        assert told == {str: "text", int: "number", float: "number"}.get(
            type(TYPES[name][3]), "JSON"
        )


def by_odata(service: Service) -> list[dict[str, Any]]:
    """The rows that python-odata reads."""
    pytest.importorskip("odata", reason="needs python-odata")
    import requests
    from odata import ODataService

    with requests.Session() as session:
        feed = ODataService(
            f"{service.url}/odata/kamu/", reflect_entities=True, session=session,
            quiet_progress=True,
        )  # fmt: skip
        found = list(feed.query(feed.entities["every"]))
    return [{name: getattr(row, name, None) for name in COLUMNS.values()} for row in found]


def by_mcp(service: Service) -> list[dict[str, Any]]:
    """The rows that fastmcp reads."""
    fastmcp = pytest.importorskip("fastmcp", reason="needs fastmcp")

    async def asked() -> Any:
        async with fastmcp.Client(f"{service.url}/mcp") as client:
            return await client.call_tool("sample_rows", {"dataset": "every"})

    return list(asyncio.run(asked()).structured_content["rows"])


def by_ducklake(service: Service) -> list[dict[str, Any]]:
    """The rows that DuckDB reads of the lake."""
    from ducklake_clients import duck

    with duck(service) as db:
        table = db.execute('FROM odf.kamu."every" ORDER BY "offset"')
        names = [each[0] for each in table.description]
        return [dict(zip(names, row, strict=True)) for row in table.fetchall()]


@pytest.mark.parametrize("read", [by_ducklake, by_odata, by_mcp])
def test_no_door_shows_a_row_that_was_taken_back_and_each_shows_null_as_null(service, read):
    full, empty = read(service)
    assert {empty.get(column) for column in COLUMNS.values()} == {None}
    assert int(full[COLUMNS["`Int64`"]]) == 2**53 + 1


READERS = {"DuckDB": by_ducklake, "python-odata": by_odata, "fastmcp": by_mcp}


def told(name: str, shown: Any) -> str:
    """What became of the value of a type."""
    wanted = TYPES[name][1]
    if shown is None:
        return "left out"
    if isinstance(shown, datetime.datetime):
        unit_ns = 10**6 if "milliseconds" in name else 1
        is_whole = round(shown.timestamp() * 10**6) * 1_000 == wanted * unit_ns
        return "same" if is_whole else "cut to microseconds"
    if isinstance(shown, str):
        return "text" if shown in TYPES[name][2:] else "another text"
    if isinstance(wanted, float):
        nearest = struct.unpack("f", struct.pack("f", shown))[0]
        return "same" if str(shown) == str(wanted) or nearest == shown else "rounded"
    return "same" if shown == wanted else "rounded"


@pytest.mark.parametrize("reader", READERS)
def test_each_client_shows_each_value_as_the_page_says(service, reader):
    said = table_of("### Values in clients", 1 + len(READERS))
    titles = said.pop("value")
    row = READERS[reader](service)[0]
    shown = {name: told(name, row.get(COLUMNS[name])) for name in TYPES}
    assert {name: dict(zip(titles, each, strict=True))[reader] for name, each in said.items()} == {
        name: shown[name] for name in TYPES
    }
