"""Each type through DuckDB's lake, OData and MCP: what a client gets is what the page says.

A door shows a value with all its digits, or says that it does not.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from reading_page import PAGE
from service import Service, serving
from table_made import TableMade

from odf_storage.stores.ports.values import Visibility

NS = 1_767_312_245_123_456_789
DIGITS = "1234567890123456789.0123456789"
MS_TEXT, NS_TEXT = "2026-01-02T00:04:05.123Z", "2026-01-02T00:04:05.123456789Z"
CLOCK = datetime.time(1, 2, 3, 4)
TYPES: dict[str, tuple[Any, Any, Any, Any]] = {
    "`Int64`": (pa.int64(), 2**53 + 1, 2**53 + 1, str(2**53 + 1)),
    "`UInt32`": (pa.uint32(), 2**32 - 1, 2**32 - 1, 2**32 - 1),
    "`UInt64`": (pa.uint64(), 2**64 - 1, 2**64 - 1, str(2**64 - 1)),
    "`Float32`": (pa.float32(), 0.1, 0.1, 0.1),
    "`Float64`, `NaN`": (pa.float64(), float("nan"), "NaN", "NaN"),
    "`Decimal`": (pa.decimal128(38, 10), Decimal(DIGITS), DIGITS, DIGITS),
    "`Decimal` above 38 digits": (pa.decimal256(50, 2), Decimal("1.25"), "1.25", "1.25"),
    "`Date`": (pa.date32(), datetime.date(2026, 1, 2), *["2026-01-02"] * 2),
    "`Time` in microseconds": (pa.time64("us"), CLOCK, *["01:02:03.000004"] * 2),
    "`Time` in nanoseconds": (pa.time64("ns"), CLOCK, *["01:02:03.000004"] * 2),
    "`Timestamp` in milliseconds": (pa.timestamp("ms", "UTC"), NS // 10**6, MS_TEXT, MS_TEXT),
    "`Timestamp` in nanoseconds": (pa.timestamp("ns", "UTC"), NS, NS_TEXT, NS_TEXT),
    "`Binary`": (pa.binary(), b"\xff\x00", "_wA=", "ff00"),
    "`Binary` of fixed length": (pa.binary(2), b"\xff\x00", "_wA=", "ff00"),
    "`List`": (pa.list_(pa.int32()), [1, None], *[[1, None]] * 2),
    "`List` of lists": (pa.list_(pa.list_(pa.int32())), [[1]], None, [[1]]),
    "`Struct`": (pa.struct([("x", pa.int32())]), {"x": 1}, *[{"x": 1}] * 2),
}  # fmt: skip
"""By the name on the page: type, value, and the value as OData and MCP say it."""
COLUMNS = {name: f"c{at}" for at, name in enumerate(TYPES)}
ROW = {COLUMNS[name]: told[1] for name, told in TYPES.items()}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node")) as service:
        columns = pa.schema([(COLUMNS[name], told[0]) for name, told in TYPES.items()])
        made = TableMade(service.node.stores, "kamu/every", columns, visibility=Visibility.PUBLIC)
        made.add([ROW, {}])
        yield service


def page() -> dict[str, list[str]]:
    """What the page says of each type: DuckLake, OData, MCP."""
    section = PAGE.read_text().partition("### DuckLake, OData, MCP\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.+?) \| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return {name: told for name, *told in lines}


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
