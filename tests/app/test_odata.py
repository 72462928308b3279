"""The feed of OData: what filters find, pages of one state, and what python-odata reads."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import httpx
import pyarrow as pa
import pytest
from refusals import refusing
from service import Service, serving
from table_made import ITEMS, TableMade, item

from odf_node.service.odata.filters import filter_sql
from odf_node.service.odata.model import odata_name, true_name
from odf_storage.stores.ports.values import Visibility

PUBLIC = Visibility.PUBLIC
R = 1
WIDE = 2**53 + 1
ODD = pa.schema(
    [
        ("n", pa.int64()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(30, 10)),
        ("t", pa.timestamp("ns", "UTC")),
        ("raw", pa.binary()),
        ("2 x", pa.string()),
        ("clock", pa.time64("us")),
        ("day", pa.date32()),
        ("inner", pa.struct([("a b", pa.int64()), ("x", pa.float64())])),
        ("yes", pa.bool_()),
    ]
)
X = "_x0032__x0020_x"
NOON = 1_767_312_245_123_456_789
ROWS: list[dict[str, Any]] = [
    {
        "n": WIDE,
        "u": 2**63 + 1,
        "f": float("nan"),
        "g": 0.1,
        "d": Decimal("12345678901234567890.0123456789"),
        "t": NOON,
        "raw": b"\xff\x00",
        "2 x": "50%",
        "clock": datetime.time(1, 2, 3, 4),
        "day": datetime.date(2026, 1, 2),
        "inner": {"a b": WIDE, "x": float("-inf")},
        "yes": True,
    },
    {"n": 1, "f": float("inf"), "2 x": "a_b", "yes": False, "inner": {"a b": 3, "x": None}},
    {"n": 2, "f": 1.5, "2 x": "it's", "d": Decimal("1.1")},
    {},
    {"n": -1, "f": -1.5, "2 x": "50 euro"},
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODF_ODATA_PAGE_ROWS", "3")
        folder = tmp_path_factory.mktemp("node")
        with serving(folder, tenancy="multi") as service:
            stores = service.node.stores
            items = TableMade(stores, "alice/my.items-2", ITEMS, visibility=PUBLIC)
            items.add([item(at) for at in range(8)])
            items.add([item(2)], [R])
            TableMade(stores, "alice/odd", ODD, visibility=PUBLIC).add(ROWS)
            TableMade(stores, "carol/hidden", ITEMS).add([item(7)])
            yield service


SET = "/odata/alice/my_x002E_items_x002D_2"


def got(service: Service, path: str, token: str | None = None, **asked: Any) -> httpx.Response:
    with service.http(token) as http:
        return http.get(path, params={f"${name}": text for name, text in asked.items()})


def rows(service: Service, path: str, token: str | None = None, **asked: Any) -> list[Any]:
    """The rows of all pages."""
    answer = got(service, path, token, **asked)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    found = told["value"]
    with service.http(token) as http:
        while "@odata.nextLink" in told:
            told = http.get(told["@odata.nextLink"]).json()
            found += told["value"]
    return found


def offsets(service: Service, **asked: Any) -> list[int]:
    return [row["offset"] for row in rows(service, "/odata/alice/odd", **asked)]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (f"n eq {WIDE}", [0]),
        (f"n eq {WIDE - 1}", []),
        ("n gt 1", [0, 2]),
        ("1 lt n", [0, 2]),
        ("n lt 1.5", [1, 4]),
        ("n eq null", [3]),
        ("n ne null", [0, 1, 2, 4]),
        ("n ne 1", [0, 2, 3, 4]),
        ("not (n gt 1)", [1, 3, 4]),
        ("n in (1,2)", [1, 2]),
        ("n ge -1 and n le 1 or n eq 2", [1, 2, 4]),
        (f"u eq {2**63 + 1}", [0]),
        ("f eq NaN", [0]),
        ("f gt 1", [1, 2]),
        ("f eq INF", [1]),
        ("f lt 0", [4]),
        ("floor(f) eq 1", [2]),
        ("g eq 0.1", [0]),
        ("d gt 1.10", [0]),
        ("d eq 1.1", [2]),
        ("d eq 12345678901234567890.0123456789", [0]),
        ("d eq 12345678901234567890.0123456788", []),
        ("t ge 2026-01-02T00:04:05.123456789Z", [0]),
        ("t gt 2026-01-02T00:04:05.123456789Z", []),
        ("t eq 2026-01-02T01:04:05.123456789+01:00", [0]),
        ("year(t) eq 2026 and hour(t) eq 0", [0]),
        ("day eq 2026-01-02", [0]),
        ("month(day) eq 1", [0]),
        ("clock eq 01:02:03.000004", [0]),
        (f"contains({X},'%')", [0]),
        (f"contains({X},'_')", [1]),
        (f"contains({X},'50')", [0, 4]),
        (f"startswith({X},'50%')", [0]),
        (f"endswith({X},'_b')", [1]),
        (f"not contains({X},'50')", [1, 2]),
        (f"{X} eq 'it''s'", [2]),
        (f"{X} ne 'a_b'", [0, 2, 3, 4]),
        (f"tolower({X}) eq 'a_b'", [1]),
        (f"toupper(concat({X},'x')) eq 'A_BX'", [1]),
        (f"length(trim({X})) eq 3", [0, 1]),
        ("inner/a_x0020_b eq 3", [1]),
        ("inner/x eq -INF", [0]),
        ("yes", [0]),
        ("not yes", [1]),
        ("yes eq false", [1]),
        ("raw ne null", [0]),
        ("null eq null", [0, 1, 2, 3, 4]),
        (f"{X} eq ''' OR 1=1 --'", []),
    ],
)
def test_a_filter_finds_the_rows_that_the_standard_says(service, condition, found):
    assert offsets(service, filter=condition) == found


@pytest.mark.parametrize(
    "condition",
    [
        "n eq 'x'",
        "foo eq 1",
        "n add 1 eq 2",
        "inner eq null",
        "inner/none eq 1",
        "x/any(a:a eq 1)",
        "((n eq 1",
        "n eq 1)",
        "n eq",
        "n",
        "contains(n,'x')",
        "contains(_x0032__x0020_x)",
        "sleep(1)",
        "'open",
        "n eq 1; drop table x",
        f"n eq {'9' * 39}",
        "(" * 60 + "yes" + ")" * 60,
        " or ".join(["n eq 1"] * 200),
    ],
)
def test_what_is_no_filter_is_refused_with_the_place(service, condition):
    answer = got(service, "/odata/alice/odd", filter=condition)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "InvalidFilter"
    assert answer.headers["odata-version"] == "4.0"


@pytest.mark.parametrize("order", ["place/zip", "none", "1", "id sideways", "id,", "length(name)"])
def test_rows_are_put_in_order_by_columns_only(service, order):
    assert got(service, SET, orderby=order).json()["error"]["code"] == "InvalidFilter"


def test_a_filter_of_ever_deeper_brackets_ends_early():
    with refusing("InvalidFilter"):
        filter_sql("not " * 400 + "x", {})


def test_every_value_comes_with_all_its_digits(service):
    row = json.loads(got(service, "/odata/alice/odd", top=1).text, parse_float=Decimal)["value"][0]
    told = {name: row[name] for name in ("n", "u", "f", "d", "t", "raw", X, "clock", "day")}
    assert told == {
        "n": WIDE,
        "u": 2**63 + 1,
        "f": "NaN",
        "d": ROWS[0]["d"],
        "t": "2026-01-02T00:04:05.123456789Z",
        "raw": "_wA=",
        X: "50%",
        "clock": "01:02:03.000004",
        "day": "2026-01-02",
    }
    assert row["inner"] == {"a_x0020_b": WIDE, "x": "-INF"}


def test_large_numbers_are_texts_for_who_asks_so(service):
    with service.http() as http:
        asked = {"accept": "application/json;IEEE754Compatible=true"}
        answer = http.get("/odata/alice/odd", headers=asked)
    assert "IEEE754Compatible=true" in answer.headers["content-type"]
    row = answer.json()["value"][0]
    assert (row["n"], row["d"]) == (str(WIDE), str(ROWS[0]["d"]))
    assert row["u"] == str(2**63 + 1)
    assert type(row["g"]) is float


@pytest.mark.parametrize("order", [{}, {"orderby": "id desc"}])
def test_pages_are_of_one_state_while_rows_are_added(service, order):
    name = f"grows-{len(order)}"
    grows = TableMade(service.node.stores, f"alice/{name}", ITEMS, visibility=PUBLIC)
    grows.add([item(at) for at in range(7)])
    first = got(service, f"/odata/alice/{odata_name(name)}", count="true", **order).json()
    assert (first["@odata.count"], len(first["value"])) == (7, 3)
    grows.add([item(100), item(-1)])
    with service.http() as http:
        second = http.get(first["@odata.nextLink"]).json()
        third = http.get(second["@odata.nextLink"]).json()
    assert "@odata.nextLink" not in third
    ids = [row["id"] for page in (first, second, third) for row in page["value"]]
    assert ids == sorted(range(7), reverse=bool(order))
    assert second["@odata.count"] == 7


def test_orders_tops_and_skips_are_kept_over_pages(service):
    everything = rows(service, SET)
    ids = [row["id"] for row in everything]
    assert ids == [0, 1, 3, 4, 5, 6, 7]
    assert [row["id"] for row in rows(service, SET, skip=1, top=5)] == ids[1:6]
    by_price = rows(service, SET, orderby="price desc,id desc", select="id,price")
    assert [row["id"] for row in by_price] == [7, 5, 4, 1, 6, 3, 0]
    assert set(by_price[0]) == {"id", "price"}
    assert rows(service, SET, top=0) == []
    assert len(rows(service, f"{SET}_x0040_changelog")) == 9


def test_counts_are_of_all_rows_that_meet_the_filter(service):
    assert got(service, f"{SET}/$count").text == "7"
    assert got(service, f"{SET}/$count", filter="id lt 3").text == "2"
    told = got(service, SET, count="true", top=1, filter="id lt 5").json()
    assert (told["@odata.count"], len(told["value"])) == (4, 1)


def test_the_metadata_name_every_property_with_its_type(service):
    answer = got(service, "/odata/alice/$metadata")
    assert answer.headers["content-type"].startswith("application/xml")
    spaces = {"e": "http://docs.oasis-open.org/odata/ns/edm"}
    tree = ElementTree.fromstring(answer.text)
    odd = tree.find(".//e:EntityType[@Name='odd']", spaces)
    kinds = {each.get("Name"): each for each in odd.findall("e:Property", spaces)}
    assert odd.find("e:Key/e:PropertyRef", spaces).get("Name") == "offset"
    told = {name: (each.get("Type"), each.get("Precision"), each.get("Scale"))
            for name, each in kinds.items()}  # fmt: skip
    assert told["d"] == ("Edm.Decimal", "30", "10")
    assert told["u"] == ("Edm.Decimal", "20", "0")
    assert told["t"] == ("Edm.DateTimeOffset", "9", None)
    assert told["inner"][0] == "odf.odd__inner"
    assert kinds[X].find("e:Annotation", spaces).get("String") == "2 x"
    sets = [each.get("Name") for each in tree.iterfind(".//e:EntitySet", spaces)]
    assert {"odd", "odd_x0040_changelog", "my_x002E_items_x002D_2"} <= set(sets)


def test_a_column_that_odata_has_no_type_for_is_left_out_and_said(service):
    deep = pa.schema([("id", pa.int64()), ("deep", pa.list_(pa.list_(pa.int64())))])
    TableMade(service.node.stores, "dora/deep", deep, visibility=PUBLIC).add(
        [{"id": 1, "deep": [[1]]}]
    )
    [row] = rows(service, "/odata/dora/deep")
    assert row["id"] == 1
    assert "deep" not in row
    assert "left out: deep" in got(service, "/odata/dora/$metadata").text


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ({"expand": "x"}, "expand"),
        ({"top": "-1"}, "top"),
        ({"top": "9" * 30}, "top"),
        ({"skip": "x"}, "skip"),
        ({"count": "yes"}, "count"),
        ({"select": "none"}, "select"),
        ({"skiptoken": "x"}, "skiptoken"),
        ({"format": "xml"}, "format"),
    ],
)
def test_an_option_that_means_nothing_here_is_refused(service, asked, option):
    answer = got(service, SET, **asked)
    assert answer.status_code == 400
    assert f"${option}" in answer.json()["error"]["message"]


def test_a_hidden_dataset_is_as_unknown_as_none(service):
    for token in (None, service.token("bob")):
        answers = {
            got(service, path, token).text
            for path in ("/odata/carol/hidden", "/odata/carol/none", "/odata/carol",
                         "/odata/nobody", "/odata/carol/$metadata", "/odata/carol/hidden/$count")
        }  # fmt: skip
        assert len(answers) == 1
        status = 404 if token else 401
        assert got(service, "/odata/carol/hidden", token).status_code == status
    owner = service.token("carol")
    assert [row["id"] for row in rows(service, "/odata/carol/hidden", owner)] == [7]
    assert '"hidden"' in got(service, "/odata/carol", owner).text


def test_a_program_without_a_field_for_tokens_sends_one_as_the_password(service):
    def asked(path: str, password: str) -> httpx.Response:
        with service.http() as http:
            return http.get(path, auth=("any name", password))

    token = service.token("carol")
    with service.http() as http:
        first = http.get("/odata/carol/hidden")
    assert first.headers["www-authenticate"].startswith("Basic ")
    assert [row["id"] for row in asked("/odata/carol/hidden", token).json()["value"]] == [7]
    for wrong in ("", "kaput", "ka_of_nobody", "pässword", f"{token}x"):
        refused = asked("/odata/carol/hidden", wrong)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "TokenInvalid")
        assert refused.headers["www-authenticate"].startswith("Basic ")
    assert asked("/carol/hidden", token).status_code == 400
    assert asked("/query?query=select%201", token).status_code == 400


def test_a_bad_token_and_a_write_are_refused(service):
    assert got(service, SET, "ka_of_nobody").status_code == 401
    with service.http() as http:
        for method in ("POST", "PATCH", "DELETE"):
            answer = http.request(method, SET)
            assert answer.json()["error"]["code"] == "CatalogueIsReadOnly"
        assert http.get(f"{SET}(5)").status_code == 401
        assert http.get("/odata/alice/odd/a/b").json()["error"]["code"] == "NotInFeed"


def test_python_odata_reads_types_filters_and_follows_pages(service):
    pytest.importorskip("odata", reason="needs python-odata")
    import requests
    from odata import ODataService

    with requests.Session() as session:
        session.auth = ("any name", service.token("bob"))
        feed = ODataService(
            f"{service.url}/odata/alice/", reflect_entities=True, session=session,
            quiet_progress=True,
        )  # fmt: skip
        odd = feed.entities["odd"]
        found = list(feed.query(odd).filter(odd.n >= WIDE))
        assert [each.n for each in found] == [WIDE]
        texts = feed.query(odd).filter(getattr(odd, X).contains("50%"))
        assert [each.offset for each in texts] == [0]
        assert len(list(feed.query(feed.entities["my_x002E_items_x002D_2"]))) == 7


@pytest.mark.parametrize(
    "name", ["a", "a b", "2x", "a-b.c", "_x0041_", "a_x0020_b", "ä", "x" * 200, "é_x", "%", "😀"]
)
def test_names_stay_different_and_come_back(name):
    written = odata_name(name)
    assert written.isascii()
    assert written.isidentifier()
    assert true_name(written) == name
