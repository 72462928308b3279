"""Delta Sharing over HTTP: who may ask, pages, URLs of files, histories that are replaced."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from service import Service, serving
from table_made import TableMade

from odf_node.service.accounts.accounts import ensure_account
from odf_protocol.identity import DatasetAlias
from odf_storage.stores.ports.values import Visibility

ROOT = "/delta-sharing/shares"
TOWNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])
A, R, C, D = range(4)
DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}


def town(city: str, pop: int = 1) -> dict[str, Any]:
    return {"city": city, "pop": pop}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node"), tenancy="multi") as service:
        yield service


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with service.http(service.token("alice")) as http:
        yield http


def made(service: Service, alias: str, **given: Any) -> TableMade:
    return TableMade(service.node.stores, alias, TOWNS, **given)


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def table(alias: str, schema: str = "default") -> str:
    account, _, name = alias.partition("/")
    return f"{ROOT}/{account}/schemas/{schema}/tables/{name}"


def files(http: httpx.Client, alias: str, **asked: Any) -> list[dict[str, Any]]:
    answer = http.post(f"{table(alias)}/query", json=asked)
    return [line["file"] for line in lines(answer)[2:]]


def test_without_a_token_nothing_is_told_not_even_of_public_datasets(service):
    made(service, "alice/shown", visibility=Visibility.PUBLIC)
    with service.http() as stranger:
        for path in (ROOT, f"{ROOT}/alice/all-tables", f"{table('alice/shown')}/version"):
            answer = stranger.get(path)
            assert answer.status_code == 401
            assert answer.json()["errorCode"] == "UNAUTHENTICATED"
            assert "profile" in answer.json()["message"]
    with service.http("ka_of_nobody") as stranger:
        assert stranger.get(ROOT).json()["errorCode"] == "UNAUTHENTICATED"
    with service.http() as stranger:
        answer = stranger.get(ROOT, headers={"authorization": "Basic eDp5"})
        assert (answer.status_code, set(answer.json())) == (400, {"errorCode", "message"})


def test_a_private_table_looks_like_a_missing_one(service, http):
    made(service, "carol/hidden")
    paths = [table("carol/hidden"), table("carol/missing"), table("nobody/hidden")]
    more = ("/version", "/metadata", "/changes?startingVersion=0")
    answers = [http.get(path + each) for path in paths for each in more]
    answers += [http.post(f"{path}/query", json={}) for path in paths]
    told = [(answer.status_code, answer.json()) for answer in answers]
    assert told == [told[0]] * len(told)
    assert told[0][1]["errorCode"] == "RESOURCE_DOES_NOT_EXIST"
    assert http.get(f"{ROOT}/carol").status_code == 404
    assert "carol" not in http.get(ROOT).text


def test_all_tables_come_by_pages(service):
    wanted = set()
    for number in range(7):
        made(service, f"dave/n{number}")
        wanted |= {("default", f"n{number}"), ("changelog", f"n{number}"), ("state", f"n{number}")}
    with service.http(service.token("dave")) as http:
        for size in (1, 2, 7, 8, 100):
            found, token, pages = [], None, 0
            while pages == 0 or token:
                asked = {"maxResults": size} | ({"pageToken": token} if token else {})
                page = http.get(f"{ROOT}/dave/all-tables", params=asked).json()
                assert len(page["items"]) <= size
                found += [(item["schema"], item["name"]) for item in page["items"]]
                token, pages = page.get("nextPageToken"), pages + 1
            assert sorted(found) == sorted(wanted)
        assert http.get(f"{ROOT}/dave/all-tables?pageToken=!").status_code == 400
        assert http.get(f"{ROOT}/dave/all-tables?maxResults=x").json()["errorCode"]


def test_shares_come_by_pages_and_only_those_with_something_to_read(service):
    names = ["erin", "erin-2", "erin.co"]
    for name in names:
        made(service, f"{name}/one")
        made(service, f"{name}/two")
    owner = ensure_account(service.node.stores.accounts, "root", os.urandom, is_admin=True)
    with service.http(service.token(owner.name)) as http:
        found, token = [], ""
        while token is not None:
            page = http.get(ROOT, params={"maxResults": 1, "pageToken": token}).json()
            found += [item["name"] for item in page["items"]]
            token = page.get("nextPageToken")
    assert len(found) == len(set(found))
    assert {"erin", "erin-2", "erin_co"} <= set(found)
    with service.http(service.token("erin")) as http:
        assert "erin-2" not in http.get(ROOT).text


def test_the_url_of_a_file_needs_no_token_and_opens_that_file_only(service, http):
    towns = made(service, "alice/files")
    towns.add([town("a"), town("b")])
    other = towns.add([town("c")])
    first, second = files(http, "alice/files")
    with service.http() as stranger:
        rows = pq.read_table(io.BytesIO(stranger.get(first["url"]).content))
        assert rows["city"].to_pylist() == ["a", "b"]
        assert stranger.get(first["url"].partition("?")[0]).status_code == 404
        elsewhere = first["url"].replace(first["id"], str(other.physical_hash))
        assert stranger.get(elsewhere).status_code == 404
        changed = first["url"][:-6] + ("A" if first["url"][-6] != "A" else "B") + first["url"][-5:]
        assert stranger.get(changed).status_code == 404
    assert json.loads(second["stats"])["minValues"] == {"offset": 2}


def test_the_url_of_a_file_of_changes_opens_that_file_only(service, http):
    towns = made(service, "alice/changing")
    towns.add([town("a"), town("b")])
    towns.add([town("a")], [R])
    told = lines(http.get(f"{table('alice/changing')}/changes?startingVersion=0"))
    (mixed,) = [line["cdf"] for line in told if "cdf" in line]
    with service.http() as stranger:
        answer = stranger.get(mixed["url"])
        assert len(answer.content) == mixed["size"]
        rows = pq.read_table(io.BytesIO(answer.content))
        assert rows["_change_type"].to_pylist() == ["delete"]
        assert stranger.get(mixed["url"].partition("?")[0]).status_code == 404
        (whole,) = [line["add"] for line in told if "add" in line]
        signature = whole["url"].partition("?")[2]
        assert stranger.get(f"{mixed['url'].partition('?')[0]}?{signature}").status_code == 404
        part = stranger.get(mixed["url"], headers={"range": "bytes=-4"})
        assert (part.status_code, part.content) == (206, b"PAR1")


def test_a_replaced_history_is_another_table(service, http):
    towns = made(service, "alice/replaced")
    towns.add([town("a")])
    kept = towns.blocks[-1]
    towns.add([town("b")])

    def identity() -> tuple[str, int]:
        answer = http.get(f"{table('alice/replaced')}/metadata")
        told = lines(answer)[1]["metaData"]
        return told["id"], int(answer.headers["delta-table-version"])

    before = identity()
    assert before == identity()
    reset_to(service, towns, kept)
    after = identity()
    assert (before[1], after[1]) == (1, 0)
    assert after[0] != before[0]
    assert http.post(f"{table('alice/replaced')}/query", json={"version": 1}).status_code == 400
    towns.add([town("other")])
    assert identity() == (after[0], 1)


def reset_to(service: Service, towns: TableMade, block: Any) -> None:
    with service.http(service.token(str(towns.entry.alias.account))) as http:
        answer = http.post(f"/{towns.entry.alias}/reset", params={"block": str(block.hash)})
        assert answer.status_code == 200, answer.text
    towns.blocks = towns.blocks[: towns.blocks.index(block) + 1]
    towns.offset = 1


def test_what_was_found_of_a_block_is_kept_and_a_rewrite_forgets_nothing_wrong(service, http):
    towns = made(service, "alice/kept")
    towns.add([town("a"), town("b"), town("c")])
    towns.add([town("b")], [R])
    asked = f"{table('alice/kept')}/query"
    first = lines(http.post(asked, json={}, headers=DELTA))
    vectors = [
        line["file"]["deltaSingleAction"]["add"].get("deletionVector", {}).get("cardinality")
        for line in first[2:]
    ]
    assert vectors == [1, 1]
    with NoReaders(service):
        again = lines(http.post(asked, json={}, headers=DELTA))
    assert [_without_expiry(line) for line in again] == [_without_expiry(line) for line in first]


def _without_expiry(line: dict[str, Any]) -> dict[str, Any]:
    """The line without what changes by the second: the signed part of its URL, and its expiry."""
    if "file" not in line:
        return line
    file = {name: value for name, value in line["file"].items() if name != "expirationTimestamp"}
    action = file["deltaSingleAction"]["add"]
    unsigned = action | {"path": action["path"].partition("?")[0]}
    return {"file": file | {"deltaSingleAction": {"add": unsigned}}}


class NoReaders:
    """Nothing can be read of slices meanwhile."""

    def __init__(self, service: Service) -> None:
        self._readers = service.node.readers

    def __enter__(self) -> None:
        async def refuse(*_: Any) -> None:
            raise AssertionError("a slice is read again")

        self._readers.answer = refuse  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        del self._readers.answer  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("hint", "kept"),
    [
        ({"op": "greaterThan", "children": ["offset", "3"]}, 1),
        ({"op": "lessThanOrEqual", "children": ["offset", "1"]}, 1),
        ({"op": "equal", "children": ["nowhere", "3"]}, 3),
        ({"op": "equal", "children": ["offset", "x"]}, 3),
    ],
)
def test_hints_leave_files_out_and_bad_ones_none(service, http, hint, kept):
    alias = "alice/hinted"
    if service.node.access.entries.find(DatasetAlias.parse(alias)) is None:
        towns = made(service, alias)
        for pair in ("ab", "cd", "ef"):
            towns.add([town(each) for each in pair])
    column, value = hint["children"]
    tree = {
        "op": hint["op"],
        "children": [
            {"op": "column", "name": column, "valueType": "long"},
            {"op": "literal", "value": value, "valueType": "long"},
        ],
    }
    hints = json.dumps({"op": "and", "children": [tree, {"op": "isNull"}]})
    assert len(files(http, alias, jsonPredicateHints=hints)) == kept
    assert len(files(http, alias, limitHint=3)) == 2
    assert len(files(http, alias, jsonPredicateHints="{", predicateHints=["x = 1"])) == 3


def compared(column: str, kind: str, op: str, value: str) -> dict[str, Any]:
    literal = {"op": "literal", "value": value, "valueType": kind}
    return {"op": op, "children": [{"op": "column", "name": column, "valueType": kind}, literal]}


SECOND = "2026-01-01T12:00:03Z"
"""When the second slice was recorded."""


@pytest.mark.parametrize(
    ("json_hint", "texts", "kept"),
    [
        # by offsets, by times of blocks, by values that a read learned
        (compared("system_time", "timestamp", "greaterThan", SECOND[:-1] + ".5Z"), [], [2]),
        (None, [f"system_time >= '{SECOND}'"], [1, 2]),
        (None, [f"`system_time` < '{SECOND}'"], [0, 1, 2]),  # rows may be older than their block
        (compared("pop", "long", "greaterThanOrEqual", "20"), [], [1, 2]),
        (None, ["20 > pop"], [0]),
        (None, ["pop <= 10", "pop >= 30"], []),
        (None, ["city = 'it''s'"], []),
        # what one engine would cast, and another not, is left alone
        (compared("city", "int", "equal", "5"), [], [0, 1, 2]),
        (compared("pop", "string", "equal", "5"), [], [0, 1, 2]),
        (None, ["pop = '5'", "city = 5", "ratio > 0.3", "pop = 5.5", "pop <> 5"], [0, 1, 2]),
        (None, ["pop = 5 or pop = 30", "city is null", "not pop = 5"], [0, 1, 2]),
        ({"op": "not", "children": [compared("pop", "long", "equal", "5")]}, [], [0, 1, 2]),
        # an alternative that is not understood may hold any row
        (
            {"op": "or", "children": [compared("pop", "long", "equal", "10"), {"op": "isNull"}]},
            [],
            [0, 1, 2],
        ),
        (
            {
                "op": "or",
                "children": [
                    compared("pop", "long", "equal", "10"),
                    {
                        "op": "and",
                        "children": [
                            compared("pop", "long", "greaterThan", "20"),
                            compared("city", "string", "lessThan", "z"),
                        ],
                    },
                ],
            },
            [],
            [0, 2],
        ),
    ],
)
def test_a_hint_leaves_out_files_that_hold_no_wanted_row_and_no_others(
    service, http, json_hint, texts, kept
):
    alias = "alice/asked-by-hints"
    if service.node.access.entries.find(DatasetAlias.parse(alias)) is None:
        columns = TOWNS.append(pa.field("ratio", pa.float32()))
        towns = TableMade(service.node.stores, alias, columns)
        for pop in (10, 20, 30):
            towns.add([{"city": f"c{pop}", "pop": pop, "ratio": 0.3}])
        for filtered in ("pop:ge:0", "city:ge:a", "ratio:ge:0"):
            assert http.get(f"/{alias}/read", params={"filter": filtered}).status_code == 200
    tree = None if json_hint is None else json.dumps(json_hint)
    found = files(http, alias, jsonPredicateHints=tree, predicateHints=texts)
    assert [file["version"] for file in found] == kept


def test_hints_of_any_number_are_answered_soon(service, http):
    alias = "alice/many-hints"
    made(service, alias).add([town("a")])
    one = compared("pop", "long", "equal", "1")
    start = time.process_time()
    for op in ("and", "or"):
        tree = json.dumps({"op": op, "children": [one] * 1000})
        assert len(files(http, alias, jsonPredicateHints=tree)) == 1
        tree = json.dumps({"op": "and", "children": [{"op": op, "children": [one] * 9}] * 99})
        assert len(files(http, alias, jsonPredicateHints=tree)) == 1
    assert len(files(http, alias, predicateHints=["pop = 1"] * 1000)) == 1
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "body",
    [
        "x",
        "[]",
        '{"x":' + "[" * 100_000,
        '{"version": -1}',
        '{"version": 1' + "0" * 30 + "}",
        '{"timestamp": "yesterday"}',
        '{"version": 0, "timestamp": "2050-01-01T00:00:00Z"}',
    ],
)
def test_a_query_that_cannot_be_read_is_refused_in_the_form_of_the_protocol(service, http, body):
    alias = "alice/asked"
    if service.node.access.entries.find(DatasetAlias.parse(alias)) is None:
        made(service, alias).add([town("a")])
    answer = http.post(f"{table(alias)}/query", content=body)
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_PARAMETER_VALUE")


def test_hints_however_deep_crash_nothing(service, http):
    made(service, "alice/deep").add([town("a")])
    for piece in ('{"op":"and","children":[', "["):
        assert len(files(http, "alice/deep", jsonPredicateHints=piece * 20_000)) == 1


def test_what_some_clients_post_before_each_call_harms_nothing(http):
    for path in ("/delta-sharing", "/delta-sharing/"):
        assert http.post(path, follow_redirects=True).status_code in (404, 405)
