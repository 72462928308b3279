"""Values that no column has, and those at the ends of their types, in the filters of every door."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from service import Service, serving
from table_made import TableMade

from odf_storage.stores.ports.values import Visibility

FAR = pa.schema(
    [
        ("n", pa.int64()),
        ("t", pa.timestamp("ms", "UTC")),
        ("ns", pa.timestamp("ns", "UTC")),
        ("day", pa.date32()),
        ("d", pa.decimal128(38, 30)),
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("clock", pa.time64("us")),
        ("yes", pa.bool_()),
    ]
)
HTML = {"accept": "text/html"}
LAST, FIRST = datetime(9999, 12, 31, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"n": 2**62, "t": LAST, "ns": 1, "day": LAST.date(), "d": Decimal("1.5"), "i": 1, "u": 2**63},
    {"n": 1, "t": FIRST, "ns": 2, "day": FIRST.date(), "d": Decimal("9999999.5"), "f": 1e308},
    {"n": 2, "t": datetime(2026, 1, 1, tzinfo=UTC), "day": date(2026, 1, 1), "clock": time(1)},
    {"n": 3, "yes": True},
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node"), tenancy="multi") as service:
        stores = service.node.stores
        TableMade(stores, "alice/far", FAR, visibility=Visibility.PUBLIC).add(ROWS)
        yield service


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("t gt 9999-12-31T00:00:00Z", []),
        ("t ge 9999-12-31T00:00:00Z", [0]),
        ("t eq 0001-01-01T00:00:00Z", [1]),
        ("t lt 9999-12-31T00:00:00Z", [1, 2]),
        ("9999-12-31T00:00:00Z gt t", [1, 2]),
        ("t gt 2024-01-01T00:00:00.123456789Z", [0, 2]),
        ("t lt 2024-01-01T00:00:00.123456789Z", [1]),
        ("system_time lt 9999-12-31T00:00:00Z", [0, 1, 2, 3]),
        ("ns lt 9999-12-31T00:00:00Z", [0, 1]),
        ("ns gt 9999-12-31T00:00:00Z", []),
        ("0001-01-01T00:00:00Z lt ns", [0, 1]),
        ("ns eq 9999-12-31T00:00:00Z", []),
        ("ns ne 9999-12-31T00:00:00Z", [0, 1, 2, 3]),
        ("ns eq 1970-01-01T00:00:00.000000001Z", [0]),
        ("day ge 9999-12-31", [0]),
        ("day eq 0001-01-01", [1]),
        ("i gt 99999999999", []),
        ("u gt 9223372036854775807", [0]),
        ("f lt 1e999", [1]),
        ("floor(d) eq 1", [0]),
        ("ceiling(d) eq 2", [0]),
        ("t in (2026-01-01T00:00:00Z, 9999-12-31T00:00:00Z)", [0, 2]),
    ],
)
def test_a_feed_compares_with_values_at_the_ends_of_types(
    service: Service, condition: str, found: list[int]
) -> None:
    with service.http() as http:
        answer = http.get("/odata/alice/far", params={"$filter": condition})
    assert [row["offset"] for row in answer.json()["value"]] == found


BAD = [
    "t gt 2024-13-01T00:00:00Z",
    "t gt 2024-02-30T00:00:00Z",
    "t gt 2024-01-01T25:00:00Z",
    "t gt 2024-01-01T00:00:00+99:00",
    "t gt 0000-01-01T00:00:00Z",
    "t gt 9999-12-31T23:59:59-14:00",
    "t gt 9999-12-31T00:00:00.123456789Z",
    "day gt 2024-02-30",
    "clock gt 25:00",
    "d gt 99999999999999999999999999999999999999",
    "n gt 0.000000000000000000000000000001",
]


@pytest.mark.parametrize("condition", BAD)
@pytest.mark.parametrize("counts", [False, True])
def test_a_feed_refuses_what_is_no_value_in_its_own_words(
    service: Service, condition: str, counts: bool
) -> None:
    with service.http() as http:
        asked = {"$filter": condition, "$count": "true" if counts else "false"}
        answer = http.get("/odata/alice/far", params=asked)
    told = answer.json()["error"]
    assert (answer.status_code, told["code"]) == (400, "InvalidFilter")
    assert "rrow" not in told["message"]
    assert "Optimizer" not in told["message"]


VIEWED: list[tuple[str, str, str, Any]] = [
    ("t", "from", "9999-12-31", [0]),
    ("t", "to", "9999-12-31", [2, 1, 0]),
    ("t", "is", "2026-01-01T01:00:00+01:00", [2]),
    ("t", "is", "2026-01-01 00:00:00", [2]),
    ("ns", "to", "9999-12-31T00:00:00Z", [1, 0]),
    ("ns", "from", "0001-01-01", [1, 0]),
    ("ns", "from", "9999-12-31", []),
    ("ns", "not", "9999-12-31", [3, 2, 1, 0]),
    ("day", "is", "0001-01-01", [1]),
    ("u", "from", "9223372036854775808", [0]),
    ("u", "from", "-1", [0]),
    ("i", "to", "99999999999999999999", [0]),
    ("n", "from", "2.5", [3, 0]),
    ("d", "is", "1.500000000000", [0]),
    ("d", "from", "1.500000000001", [1]),
    ("f", "from", "1e308", [1]),
    ("yes", "is", "True", [3]),
    ("t", "is", "2026-13-01", "is no time of the years 1 to 9999"),
    ("day", "from", "tomorrow", "is no day of the years 1 to 9999"),
    ("n", "is", "many", "is no number in digits"),
    ("n", "is", "9" * 39, "a number has 38 digits at most"),
    ("d", "from", "9" * 38, "out of the range"),
    ("f", "is", "1,5", "is no number"),
    ("yes", "is", "perhaps", "is neither true nor false"),
]


@pytest.mark.parametrize(("column", "how", "value", "told"), VIEWED)
def test_the_viewer_compares_with_what_the_column_may_have_or_says_why_not(
    service: Service, column: str, how: str, value: str, told: Any
) -> None:
    asked = {"rows": "0", "column": column, "how": how, "value": value}
    with service.http() as http:
        page = html.unescape(http.get("/alice/far", params=asked, headers=HTML).text)
    if isinstance(told, str):
        assert told in page
        assert "Arrow error" not in page
        assert "Optimizer" not in page
    else:
        found = [int(at) for at in re.findall(r"\?why=(\d+)\"", page)]
        assert found == told


@pytest.mark.parametrize("value", ["10000-01-01T00:00:00Z", "2024-02-30", "0000-01-01", "soon"])
def test_reads_and_look_ups_refuse_what_is_no_time(service: Service, value: str) -> None:
    with service.http() as http:
        read = http.get("/alice/far/read", params={"filter": f"t:ge:{value}"})
        found = http.get("/alice/far/lookup", params={"column": "t", "value": value})
    for answer in (read, found):
        assert answer.status_code == 400
        assert answer.json()["type"].rpartition(":")[2] == "MalformedFilter"


@pytest.mark.parametrize("value", ["9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_reads_find_what_is_at_the_ends_of_time(service: Service, value: str) -> None:
    with service.http() as http:
        read = http.get("/alice/far/read", params={"filter": f"t:eq:{value}"})
    assert [json.loads(line)["n"] for line in read.text.splitlines()] in ([2**62], [1])


@pytest.mark.parametrize("view", ["rows=0", "changelog=0", "history=1", "block=0", ""])
def test_the_link_to_sign_in_leads_back_to_the_page(service: Service, view: str) -> None:
    with service.http() as http:
        page = http.get(f"/alice/far?{view}", headers=HTML).text
    assert 'href="/v/sign-in?next=/alice/far"' in page
