"""What goes wrong beside a reader, at every door: datasets that it cannot show, tokens that are
taken away between two requests, heads that move between two pages, odd filters and names.

Each door is asked by its real client where that is quick, else by the requests that it sends.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import adbc_driver_flightsql.dbapi as adbc
import httpx
import pyarrow as pa
import pytest
from iceberg_clients import catalogue
from pyiceberg.exceptions import RESTError
from pyiceberg.expressions import EqualTo, GreaterThan, IsNaN, IsNull, NotEqualTo, StartsWith
from service import Service, seeded, serving
from sharing_client import ClientFailed, SharingClient, sharing_client
from table_made import TableMade

from odf_node.service.accounts.accounts import ensure_account
from odf_protocol.identity import DatasetAlias, DatasetRef
from odf_storage.stores.ports.values import Role, Visibility

PUBLIC = Visibility.PUBLIC
GOOD = 30
WIDE = 2**53 + 1
ODD = pa.schema(
    [
        ("a b", pa.int64()),
        ("2nd", pa.float64()),
        ("Name", pa.string()),
        ("select", pa.string()),
        ("x%y", pa.string()),
    ]
)
"""Columns with a space, a leading digit, capitals, a word of SQL, a sign of patterns."""
ROWS: list[tuple[Any, ...]] = [
    (WIDE, float("nan"), "50%", "it's", "a"),
    (WIDE - 1, 1.5, "50 x", None, "b"),
    (None, None, "a_b", '"', "c"),
    (-1, -0.0, "axb", "\\", None),
]
MCP = {"accept": "application/json, text/event-stream"}


def row(values: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(ODD.names, values, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    """Many datasets that all doors show, and three that some cannot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODF_MCP_ANSWER_BYTES", str(12 << 20))
        with serving(folder, flight_port=0) as service:
            stores = service.node.stores
            plain = pa.schema([("city", pa.string())])
            for at in range(GOOD):
                made = TableMade(stores, f"kamu/good{at}", plain, visibility=PUBLIC)
                made.add([{"city": "a"}])
            odd = TableMade(stores, "kamu/odd", ODD, visibility=PUBLIC)
            odd.add([row(values) for values in ROWS])
            TableMade(stores, "kamu/hidden", plain).add([{"city": "a"}])
            service.keep(seeded(), "kamu/bare")
            case = pa.schema([("a", pa.int64()), ("A", pa.int64())])
            TableMade(stores, "kamu/case", case, visibility=PUBLIC).add([{"a": 1, "A": 2}])
            broken = TableMade(stores, "kamu/broken", plain, visibility=PUBLIC)
            name = str(broken.add([{"city": "nowhere"}]).physical_hash)
            [file] = [each for each in folder.rglob(name) if each.is_file()]
            file.write_bytes(b"x" * file.stat().st_size)
            yield service


@pytest.fixture(scope="module")
def sharing(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharingClient]:
    with sharing_client(service, service.token(), tmp_path_factory.mktemp("client")) as sharing:
        yield sharing


def tool(service: Service, name: str, token: str | None = None, **given: Any) -> Any:
    """The answer of a tool, as an HTTP answer."""
    body = {"name": name, "arguments": given}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}
    with service.http(token) as http:
        return http.post("/mcp", json=message, headers=MCP)


def rows_by_flight(service: Service, query: str, token: str | None = None) -> list[dict[str, Any]]:
    given = {"username": "anonymous", "password": ""}
    if token is not None:
        given = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    address = f"grpc://127.0.0.1:{service.node.flight.port}"
    with adbc.connect(address, given, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetch_arrow_table().to_pylist()


def tables_by_flight(service: Service, _: SharingClient) -> set[str]:
    address, given = f"grpc://127.0.0.1:{service.node.flight.port}", {"username": "anonymous"}
    with adbc.connect(address, {**given, "password": ""}, autocommit=True) as connection:
        found = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
    [schema] = found[0]["catalog_db_schemas"]
    return {each["table_name"] for each in schema["db_schema_tables"]}


def tables_by_lake(service: Service, _: SharingClient) -> set[str]:
    from ducklake_clients import duck, found

    with duck(service) as db:
        names = found(db, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'kamu'")
    return {name for [name] in names if "@" not in name}


def tables_by_odata(service: Service, _: SharingClient) -> set[str]:
    with service.http() as http:
        assert http.get("/odata/kamu/$metadata").status_code == 200
        return {each["name"] for each in http.get("/odata/kamu").json()["value"]}


def tables_by_mcp(service: Service, _: SharingClient) -> set[str]:
    names, after = set[str](), {}
    while True:
        told = tool(service, "search_datasets", **after).json()["result"]["structuredContent"]
        names |= {each["alias"].rpartition("/")[2] for each in told["datasets"]}
        if not told["next"]:
            return names
        after = {"after": told["next"]}


def tables_by_dcat(service: Service, _: SharingClient) -> set[str]:
    with service.http() as http:
        page = http.get("/catalog.jsonld").json()
    return {each["dct:title"] for each in page["dcat:dataset"]}


def tables_by_oai(service: Service, _: SharingClient) -> set[str]:
    asked = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
    with service.http() as http:
        tree = ElementTree.fromstring(http.get("/oai", params=asked).text)
    return {each.text or "" for each in tree.iter("{http://purl.org/dc/elements/1.1/}title")}


def tables_by_iceberg(service: Service, _: SharingClient) -> set[str]:
    return {name for _, name in catalogue(service, None).list_tables("kamu")}


def tables_by_sharing(_: Service, sharing: SharingClient) -> set[str]:
    return {name for _, schema, name in sharing.tables() if schema == "default"}


LISTS: dict[str, Callable[[Service, SharingClient], set[str]]] = {
    "Flight SQL": tables_by_flight,
    "DuckLake": tables_by_lake,
    "OData": tables_by_odata,
    "MCP": tables_by_mcp,
    "DCAT": tables_by_dcat,
    "OAI-PMH": tables_by_oai,
    "Iceberg": tables_by_iceberg,
    "Delta Sharing": tables_by_sharing,
}
GOOD_NAMES = {"odd", *(f"good{at}" for at in range(GOOD))}


@pytest.mark.parametrize("door", LISTS)
def test_datasets_that_a_door_cannot_show_hide_no_other(service, sharing, door):
    assert LISTS[door](service, sharing) >= GOOD_NAMES


class ToolRefused(Exception):
    """What a tool said."""


REFUSALS = (ToolRefused, ClientFailed, httpx.HTTPStatusError, adbc.Error, RESTError, OSError)


def cities_of(service: Service, sharing: SharingClient, door: str, name: str) -> list[str]:
    """The values of the column `city`."""
    match door:
        case "Iceberg":
            table = catalogue(service, None).load_table(f"kamu.{name}")
            return table.scan().to_arrow()["city"].to_pylist()
        case "Delta Sharing":
            found = sharing.load(f"kamu.default.{name}")
            return [each[found["columns"].index("city")] for each in found["rows"]]
        case "Flight SQL":
            return [each["city"] for each in rows_by_flight(service, f"select city from {name}")]
        case "OData":
            with service.http() as http:
                answer = http.get(f"/odata/kamu/{name}").raise_for_status()
            return [each["city"] for each in answer.json()["value"]]
        case "MCP":
            told = tool(service, "sample_rows", dataset=name).json()["result"]
            if told["isError"]:
                raise ToolRefused(told["structuredContent"]["message"])
            return [each["city"] for each in told["structuredContent"]["rows"]]
    raise AssertionError(door)


@pytest.mark.parametrize("door", ["Iceberg", "Delta Sharing", "Flight SQL", "OData", "MCP"])
def test_a_damaged_dataset_is_never_an_empty_one(service, sharing, door):
    with pytest.raises(REFUSALS):
        cities_of(service, sharing, door, "broken")
    assert cities_of(service, sharing, door, "good3") == ["a"]


ASKED: dict[str, Callable[[httpx.Client], httpx.Response]] = {
    "DuckLake": lambda http: http.get("/ducklake"),
    "MCP": lambda http: http.post("/mcp", json={}, headers=MCP),
    "OData": lambda http: http.get("/odata/kamu/hidden"),
    "OData, metadata": lambda http: http.get("/odata/kamu/$metadata"),
    "Delta Sharing": lambda http: http.post(
        "/delta-sharing/shares/kamu/schemas/default/tables/hidden/query", json={}
    ),
    "Delta Sharing, list": lambda http: http.get("/delta-sharing/shares/kamu/all-tables"),
    "Iceberg": lambda http: http.get("/iceberg/v1/default/namespaces/kamu/tables/hidden"),
    "Iceberg, list": lambda http: http.get("/iceberg/v1/default/namespaces/kamu/tables"),
    "STAC": lambda http: http.get("/hidden/stac.json"),
    "Croissant": lambda http: http.get("/hidden/croissant.json"),
}
"""DCAT and OAI-PMH tell everybody the same, whatever token comes along."""
AS_UNKNOWN = ("STAC", "Croissant")
"""What these tell a token that is none is what everybody sees, and so nothing of this dataset."""


def reader(service: Service) -> str:
    """A token of an account that may read the hidden dataset."""
    stores = service.node.stores
    account = ensure_account(stores.accounts, "reader", os.urandom)
    hidden = stores.dataset(DatasetRef(alias=DatasetAlias.parse("kamu/hidden")))
    stores.roles.put(hidden.entry.id, account.id, Role.READER)
    return service.token("reader")


def take_away(http: httpx.Client) -> None:
    """All tokens of the caller."""
    for each in http.get("/accounts/me/tokens").json()["tokens"]:
        http.delete(f"/accounts/me/tokens/{each['id']}")


@pytest.mark.parametrize("door", ASKED)
def test_a_token_that_is_taken_away_is_told_at_the_next_request(service, door):
    with service.http(reader(service)) as http:
        before = ASKED[door](http)
        assert before.status_code not in (401, 403, 404), before.text
        take_away(http)
        after = ASKED[door](http)
    assert after.status_code == (404 if door in AS_UNKNOWN else 401)
    assert "good1" not in after.text


def test_a_flight_connection_ends_with_its_token(service):
    token = reader(service)
    address = f"grpc://127.0.0.1:{service.node.flight.port}"
    given = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    with adbc.connect(address, given, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("select city from hidden")
            assert len(cursor.fetchall()) == 1
        with service.http(token) as http:
            take_away(http)
        for query in ("select city from hidden", "select 1"):
            with connection.cursor() as cursor, pytest.raises(adbc.Error) as refused:
                cursor.execute(query)
            assert "UNAUTHENTICATED" in str(refused.value).upper()


FILTERS = [
    ('"a b" = 9007199254740993', EqualTo("a b", WIDE), [0]),
    ('"a b" > 9007199254740992', GreaterThan("a b", WIDE - 1), [0]),
    ("\"Name\" = '50%'", EqualTo("Name", "50%"), [0]),
    ("starts_with(\"Name\", 'a_')", StartsWith("Name", "a_"), [2]),
    ("\"select\" = 'it''s'", EqualTo("select", "it's"), [0]),
    ("\"select\" = '\\'", EqualTo("select", "\\"), [3]),
    ('"select" IS NULL', IsNull("select"), [1]),
    ('isnan("2nd")', IsNaN("2nd"), [0]),
    ("\"x%y\" <> 'a'", NotEqualTo("x%y", "a"), [1, 2]),
]


@pytest.mark.parametrize(("sql", "iceberg", "found"), FILTERS, ids=lambda each: str(each)[:30])
def test_odd_values_and_names_in_filters_find_the_same_rows_at_each_door(
    service, sql, iceberg, found
):
    from ducklake_clients import duck

    query = f'select "offset" from odd where {sql} order by "offset"'
    by_flight = [each["offset"] for each in rows_by_flight(service, query)]
    told = tool(service, "query", sql=query).json()["result"]["structuredContent"]
    by_mcp = [each["offset"] for each in told["rows"]]
    with duck(service) as db:
        by_lake = [at for [at] in db.execute(query.replace(" odd ", " odf.kamu.odd ")).fetchall()]
    table = catalogue(service, None).load_table("kamu.odd")
    by_iceberg = sorted(table.scan(row_filter=iceberg).to_arrow()["offset"].to_pylist())
    assert [by_flight, by_mcp, by_lake, by_iceberg] == [found] * 4


def test_hints_with_odd_values_lose_no_row_of_delta_sharing(service, sharing):
    everything = sharing.load("kamu.default.odd")
    assert set(ODD.names) <= set(everything["columns"])
    for column, kind, value in (
        ("a b", "long", str(WIDE)),
        ("2nd", "double", "NaN"),
        ("Name", "string", "50%"),
        ("select", "string", "it's"),
        ("x%y", "string", "a"),
    ):
        hint = {
            "op": "equal",
            "children": [
                {"op": "column", "name": column, "valueType": kind},
                {"op": "literal", "value": value, "valueType": kind},
            ],
        }
        kept = sharing.count("kamu.default.odd", jsonPredicateHints=json.dumps(hint))
        assert kept == len(ROWS), column


def test_tables_and_columns_are_found_in_another_case_or_refused(service):
    from ducklake_clients import duck

    with duck(service) as db:
        assert db.execute('SELECT "NAME" FROM odf.KAMU."ODD" LIMIT 1').fetchall() == [("50%",)]
    assert rows_by_flight(service, 'select "Name" from ODD limit 1') == [{"Name": "50%"}]
    for query in ('select "NAME" from odd', 'select * from "ODD2"'):
        with pytest.raises(adbc.Error, match=r"(?i)NAME|ODD2"):
            rows_by_flight(service, query)


def test_an_answer_of_ten_megabytes_reaches_a_client_that_takes_one(service):
    fastmcp = pytest.importorskip("fastmcp", reason="needs fastmcp")
    sql = "select value as v, repeat('x', 10000) as t from generate_series(1, 1000)"

    async def asked() -> Any:
        async with fastmcp.Client(f"{service.url}/mcp") as client:
            return await client.call_tool("query", {"sql": sql, "limit": 1_000})

    told = asyncio.run(asked()).structured_content
    assert [(each["v"], len(each["t"])) for each in told["rows"]] == [
        (at, 10_000) for at in range(1, 1_001)
    ]


def test_pages_go_on_while_the_head_moves_at_each_door_with_pages(service):
    made = TableMade(
        service.node.stores, "kamu/moves", pa.schema([("n", pa.int64())]), visibility=PUBLIC
    )
    made.add([{"n": at} for at in range(10)])
    first = tool(service, "query", sql="select n from moves order by n limit 5").json()["result"]
    pins = first["structuredContent"]["input"]["datasets"]
    table = catalogue(service, None).load_table("kamu.moves")
    with service.http() as http:
        small = {"prefer": "maxpagesize=4"}
        page = http.get("/odata/kamu/moves", headers=small)
        found = [each["n"] for each in page.json()["value"]]
        made.add([{"n": 0}], [1])
        made.add([{"n": 99}])
        while "@odata.nextLink" in page.json():
            page = http.get(page.json()["@odata.nextLink"], headers=small)
            found += [each["n"] for each in page.json()["value"]]
    assert found == list(range(10))
    sql = "select n from moves order by n limit 5 offset 5"
    rest = tool(service, "query", sql=sql, datasets=pins).json()["result"]["structuredContent"]
    assert [each["n"] for each in rest["rows"]] == [5, 6, 7, 8, 9]
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == list(range(10))
