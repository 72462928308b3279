"""The catalogue of Iceberg over HTTP: who may ask, pages, what is refused, files that are made."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusing
from service import Chain, Service, serving, ten_rows
from table_made import TableMade

from odf_node.service.accounts.accounts import ensure_account
from odf_node.service.iceberg.table import FileMemory, FileName
from odf_storage.stores.ports.values import Visibility

ROOT = "/iceberg/v1/default/namespaces"
TOWNS = pa.schema([("city", pa.string()), ("pop", pa.int64())])
A, R = range(2)


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


def table(alias: str) -> str:
    account, _, name = alias.partition("/")
    return f"{ROOT}/{account}/tables/{name}"


def loaded(http: httpx.Client, alias: str, **asked: Any) -> dict[str, Any]:
    answer = http.get(table(alias), params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    told = answer.json()["error"]
    assert told["code"] == answer.status_code
    assert told["message"]
    return answer.status_code, told["type"]


def address(place: str) -> str:
    """Where the node serves what is at `s3://…`."""
    return place.removeprefix("s3:/")


def test_a_private_table_looks_like_a_missing_one(service, http):
    made(service, "carol/hidden")
    paths = [table("carol/hidden"), table("carol/missing"), table("nobody/hidden")]
    answers = [http.get(path + more) for path in paths for more in ("", "/credentials")]
    assert {refusal(answer) for answer in answers} == {(404, "NoSuchTableException")}
    assert len({answer.text for answer in answers}) == 1
    assert [http.head(path).status_code for path in paths] == [404] * 3
    assert refusal(http.get(f"{ROOT}/carol")) == (404, "NoSuchNamespaceException")
    assert refusal(http.get(f"{ROOT}/carol/tables")) == (404, "NoSuchNamespaceException")
    assert "carol" not in http.get(ROOT).text


def test_bad_tokens_and_headers_are_told(service):
    with service.http("ka_of_nobody") as stranger:
        for path in ("/iceberg/v1/config", ROOT, table("alice/x")):
            assert refusal(stranger.get(path)) == (401, "NotAuthorizedException")
    with service.http() as stranger:
        answer = stranger.get(ROOT, headers={"authorization": "Basic eDp5"})
        assert refusal(answer) == (400, "BadRequestException")


def test_a_node_without_anonymous_access_tells_strangers_nothing(tmp_path):
    with serving(tmp_path / "node", allow_anonymous=False) as service:
        TableMade(service.node.stores, "kamu/shown", TOWNS, visibility=Visibility.PUBLIC)
        with service.http() as stranger:
            for path in ("/iceberg/v1/config", ROOT, table("kamu/shown")):
                assert refusal(stranger.get(path)) == (401, "NotAuthorizedException")


def test_a_client_is_told_where_to_begin(http):
    told = http.get("/iceberg/v1/config").json()
    assert told["overrides"] == {"prefix": "default"}
    assert http.get("/iceberg/v1/config?warehouse=").json() == told
    state = http.get("/iceberg/v1/config?warehouse=state").json()
    assert state["overrides"] == {"prefix": "state"}
    assert all(each.split()[0] in ("GET", "HEAD") for each in told["endpoints"])
    unknown = http.get("/iceberg/v1/config?warehouse=other")
    assert refusal(unknown) == (404, "NoSuchWarehouseException")
    elsewhere = http.get("/iceberg/v1/other/namespaces")
    assert refusal(elsewhere) == (404, "NoSuchWarehouseException")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/iceberg/v1/oauth/tokens"),
        ("POST", ROOT),
        ("DELETE", f"{ROOT}/alice"),
        ("POST", f"{ROOT}/alice/properties"),
        ("POST", f"{ROOT}/alice/tables"),
        ("POST", f"{ROOT}/alice/register"),
        ("POST", table("alice/x")),
        ("DELETE", table("alice/x")),
        ("POST", f"{table('alice/x')}/plan"),
        ("POST", "/iceberg/v1/default/tables/rename"),
        ("POST", "/iceberg/v1/default/transactions/commit"),
        ("PUT", "/iceberg/v1/default/anything"),
    ],
)
def test_what_would_change_something_is_refused_as_the_catalogue_has_it(http, method, path):
    answer = http.request(method, path, json={"name": "x"})
    assert refusal(answer) == (406, "UnsupportedOperationException")
    assert "read only" in answer.text


def test_what_the_catalogue_does_not_have_is_told_in_its_form(http):
    for path in ("/iceberg/v1/default/views", f"{ROOT}/alice/views", "/iceberg/v2/config"):
        assert refusal(http.get(path)) == (404, "NotFoundException")


def test_namespaces_and_tables_come_by_pages(service):
    for name in ("dave", "dave-2", "dave.co"):
        for number in range(3):
            made(service, f"{name}/n.{number}")
    root = ensure_account(service.node.stores.accounts, "root", b"x".__mul__, is_admin=True)
    with service.http(service.token(root.name)) as http:
        found = [tuple(each) for each in pages(http, ROOT, "namespaces")]
        assert {("dave",), ("dave-2",), ("dave_co",)} <= set(found)
        assert len(found) == len(set(found))
        names = [each["name"] for each in pages(http, f"{ROOT}/dave_co/tables", "identifiers")]
        assert names == ["n_0", "n_1", "n_2"]
        assert http.get(f"{ROOT}?parent=dave").json() == {"namespaces": []}
        assert http.get(f"{ROOT}?parent=nobody").status_code == 404
        for asked in ("pageToken=!", "pageSize=0", "pageSize=x"):
            answer = http.get(f"{ROOT}/dave/tables?{asked}")
            assert refusal(answer) == (400, "BadRequestException")


def pages(http: httpx.Client, path: str, items: str) -> list[Any]:
    found, asked = [], {"pageSize": 1}
    while True:
        page = http.get(path, params=asked).json()
        assert len(page[items]) <= 1
        found += page[items]
        if "next-page-token" not in page:
            return found
        asked["pageToken"] = page["next-page-token"]


def test_whether_a_table_is_there_costs_no_look_at_it(service, http):
    made(service, "alice/there")
    assert http.head(table("alice/there")).status_code == 204
    assert http.head(f"{ROOT}/alice").status_code == 204


def test_snapshots_are_told_as_many_as_are_asked_for_and_bounded(tmp_path):
    with serving(tmp_path / "node", tenancy="multi", max_snapshots=2) as service:
        towns = made(service, "alice/five")
        for number in range(5):
            towns.add([town(f"c{number}")])
        with service.http(service.token("alice")) as http:
            told = loaded(http, "alice/five")["metadata"]
            assert [each["sequence-number"] for each in told["snapshots"]] == [4, 5]
            (newest,) = loaded(http, "alice/five", snapshots="refs")["metadata"]["snapshots"]
            assert newest["snapshot-id"] == told["current-snapshot-id"]
            answer = http.get(table("alice/five"), params={"snapshots": "some"})
            assert refusal(answer) == (400, "BadRequestException")


def files_of(http: httpx.Client, told: dict[str, Any]) -> dict[str, bytes]:
    """All files that are made of a table, by address."""
    first = [
        told["metadata-location"],
        *(s["manifest-list"] for s in told["metadata"]["snapshots"]),
    ]
    found: dict[str, bytes] = {}
    todo = [address(each) for each in first]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        answer = http.get(path)
        assert answer.status_code == 200, path
        found[path] = answer.content
        if path.endswith(".avro"):
            marks = answer.content.decode("latin-1").split("s3:/")[1:]
            ends = (".avro", ".parquet")
            for mark in marks:
                cut = [mark.find(end) + len(end) for end in ends if end in mark[:200]]
                if "/iceberg/" in mark[:100] and cut:
                    todo.append(mark[: min(cut)])
    return found


def test_files_are_the_same_bytes_for_ever_and_come_in_parts(service, http):
    towns = made(service, "alice/lasting")
    towns.add([town("a"), town("b"), town("c")])
    towns.add([town("b")], [R])
    before = files_of(http, loaded(http, "alice/lasting"))
    kinds = {path.rpartition("/")[2].partition("-")[0] for path in before}
    assert kinds == {"table", "snapshot", "data", "deletes", "rows"}
    towns.add([town("d")])
    for path, content in before.items():
        answer = http.get(path)
        assert answer.content == content
        assert "immutable" in answer.headers["cache-control"]
        tag = answer.headers["etag"]
        part = http.get(path, headers={"range": "bytes=-4"})
        assert (part.status_code, part.content, part.headers["etag"]) == (206, content[-4:], tag)
        head = http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(content))
    (path,) = [path for path in before if "/rows-" in path and path.endswith("-1-0.parquet")]
    deleted = pq.read_table(io.BytesIO(before[path])).to_pydict()
    assert deleted["pos"] == [1]
    assert deleted["file_path"] == [f"s3://alice/lasting/data/{towns.parts[0].physical_hash}"]


def test_the_same_chain_is_the_same_files_on_two_nodes(tmp_path: Path) -> None:
    chain = ten_rows(b"7" * 32)
    found = [_files_elsewhere(tmp_path / name, chain) for name in ("one", "other")]
    assert len(found[0]) >= 3
    assert {path: body for path, body in found[0].items() if ".json" not in path} == {
        path: body for path, body in found[1].items() if ".json" not in path
    }


def _files_elsewhere(folder: Path, chain: Chain) -> dict[str, bytes]:
    with serving(folder) as service, service.http() as http:
        service.keep(chain, "kamu/foo")
        return files_of(http, loaded(http, "kamu/foo"))


def test_files_take_the_right_to_read_the_dataset(service, http):
    towns = made(service, "alice/closed")
    towns.add([town("a")])
    told = loaded(http, "alice/closed")
    paths = [address(told["metadata-location"])]
    paths.append(address(told["metadata"]["snapshots"][0]["manifest-list"]))
    with service.http() as stranger:
        assert [stranger.get(path).status_code for path in paths] == [404, 404]
        assert [stranger.get(f"{path}?sp=x").status_code for path in paths] == [404, 404]
    elsewhere = made(service, "alice/elsewhere")
    elsewhere.add([town("a")])
    for path in paths:
        other = path.replace("/closed/", "/elsewhere/")
        assert http.get(other).status_code == 404


def test_a_replaced_history_is_another_table_whose_files_replace_the_old_ones(service, http):
    towns = made(service, "alice/replaced")
    towns.add([town("a")])
    kept = towns.blocks[-1]
    towns.add([town("b")])
    before = loaded(http, "alice/replaced")
    with service.http(service.token("alice")) as owner:
        answer = owner.post("/alice/replaced/reset", params={"block": str(kept.hash)})
        assert answer.status_code == 200, answer.text
    after = loaded(http, "alice/replaced")
    assert after["metadata"]["table-uuid"] != before["metadata"]["table-uuid"]
    assert len(after["metadata"]["snapshots"]) == 1
    for snapshot in before["metadata"]["snapshots"]:
        answer = http.get(address(snapshot["manifest-list"]))
        assert (answer.status_code, "replaced" in answer.text) == (404, True)


@pytest.mark.parametrize(
    "change",
    [
        ("-0.avro", "-9.avro"),
        ("-0.avro", "-00.avro"),
        ("-0.avro", "-0-0.avro"),
        ("-0.avro", "-0.parquet"),
        ("-0.avro", f"-{10**12}.avro"),
        ("snapshot-", "deletes-"),
        ("snapshot-", "rows-"),
        ("snapshot-", "%2e%2e-"),
        ("snapshot-", "other-"),
    ],
)
def test_files_of_other_names_are_not_there(service, http, change):
    if http.get(table("alice/named")).status_code == 404:
        made(service, "alice/named").add([town("a")])
    place = address(loaded(http, "alice/named")["metadata"]["snapshots"][0]["manifest-list"])
    assert http.get(place).status_code == 200
    assert http.get(place.replace(*change)).status_code == 404


def test_rows_beyond_the_limit_are_refused_before_any_is_told(tmp_path):
    with serving(tmp_path / "node", tenancy="multi", iceberg_deleted_rows=1) as service:
        towns = made(service, "alice/limited")
        towns.add([town("a"), town("b")])
        towns.add([town("a")], [R])
        with service.http(service.token("alice")) as http:
            assert loaded(http, "alice/limited")
            towns.add([town("b")], [R])
            answer = http.get(table("alice/limited"))
            assert refusal(answer) == (413, "BadRequestException")
            assert "changelog" in answer.text
            plain = http.get(table("alice/limited").replace("default", "changelog"))
            assert plain.status_code == 200


@pytest.mark.parametrize("kind", ["halffloat", "uint32", "uint64", "time32[ms]", "time64[ns]"])
def test_columns_without_a_type_are_refused_by_name(service, http, kind):
    name = f"alice/{kind.strip(']').replace('[', '-')}"
    TableMade(service.node.stores, name, pa.schema([("narrow", pa.type_for_alias(kind))]))
    answer = http.get(table(name))
    assert refusal(answer) == (400, "BadRequestException")
    assert "narrow" in answer.text


def test_keys_are_for_one_dataset_and_are_kept_by_nobody(service, http):
    made(service, "alice/keyed")
    answer = http.get(table("alice/keyed"))
    told = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    (stored,) = told["storage-credentials"]
    assert stored == {"prefix": "s3://alice/keyed", "config": told["config"]}
    assert told["config"]["s3.endpoint"] == service.url
    again = http.get(f"{table('alice/keyed')}/credentials").json()
    assert again["storage-credentials"][0]["prefix"] == stored["prefix"]
    secrets = [value for key, value in told["config"].items() if "secret" in key or "token" in key]
    assert not any(secret in str(told["metadata"]) for secret in secrets)


def test_remembered_files_are_bounded_and_made_again():
    memory, made_of = FileMemory(10), list[str]()

    def file(name: str) -> bytes:
        def make() -> bytes:
            made_of.append(name)
            return name.encode() * 4

        return memory.get(name, make).content

    for name in "aabac":
        assert file(name) == name.encode() * 4
    assert made_of == ["a", "b", "c"]
    file("b")
    assert made_of == ["a", "b", "c", "b"]
    memory.get("long", lambda: b"x" * 11)
    file("b")
    assert made_of[-1] == "b"


def test_names_of_files_are_read_as_they_are_written():
    text = "rows-00000000-0000-0000-0000-00000000000a-12-0.parquet"
    assert str(FileName.parse(text)) == text
    for bad in (text.replace("12", "012"), f"{text}x", text.replace("parquet", "avro"), ""):
        with refusing("NoSuchTableFile"):
            FileName.parse(bad)
