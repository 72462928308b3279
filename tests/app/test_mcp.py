"""The door for language models: what its real clients list, call and are refused."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from service import Service, serving
from table_made import ITEMS, TableMade, item

from odf_storage.stores.ports.values import Visibility

mcp = pytest.importorskip("mcp", reason="needs mcp, the SDK")
httpx2 = pytest.importorskip("httpx2")
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

PUBLIC = Visibility.PUBLIC
TOOLS = ["search_datasets", "describe_dataset", "sample_rows", "query"]
ODD = pa.schema(
    [
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(30, 10)),
        ("local", pa.timestamp("us")),
        ("exact", pa.timestamp("ns", "UTC")),
        ("raw", pa.binary()),
        ("inner", pa.struct([("ns", pa.list_(pa.int64())), ("x", pa.float64())])),
    ]
)
WIDE = 2**53 + 1
ODD_ROW = {
    "n": WIDE,
    "f": float("nan"),
    "d": Decimal("1234567890123456789.0123456789"),
    "local": 1_767_312_245_123_456,
    "exact": 1_767_312_245_123_456_789,
    "raw": b"\xff\x00",
    "inner": {"ns": [1, None, -WIDE], "x": float("-inf")},
}
ODD_TOLD = {
    "n": str(WIDE),
    "f": "NaN",
    "d": "1234567890123456789.0123456789",
    "local": "2026-01-02T00:04:05.123456Z",
    "exact": "2026-01-02T00:04:05.123456789Z",
    "raw": "ff00",
    "inner": {"ns": [1, None, str(-WIDE)], "x": "-INF"},
}
TWICE = "(select 1 as a) x, (select 2 as a) y"
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODF_MCP_ANSWER_BYTES", "20000")
        yield from _served(tmp_path_factory.mktemp("node"))


def _served(folder: Path) -> Iterator[Service]:
    with serving(folder, tenancy="multi") as service:
        stores = service.node.stores
        items = TableMade(stores, "alice/items", ITEMS, visibility=PUBLIC)
        items.add([item(at) for at in range(4)])
        TableMade(stores, "alice/odd", ODD, visibility=PUBLIC).add([ODD_ROW, {}])
        TableMade(stores, "carol/hidden", ITEMS).add([item(7)])
        yield service


def called(service: Service, name: str, token: str | None = None, **given: Any) -> Any:
    """The result of a call by the client of the SDK, once its two parts are seen to be the same."""

    async def call() -> Any:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=90) as http,
            mcp.Client(streamable_http_client(f"{service.url}/mcp", http_client=http)) as client,
        ):
            return await client.call_tool(name, given)

    result = asyncio.run(call())
    assert json.loads(result.content[0].text) == result.structured_content
    return result


def answer(service: Service, name: str, token: str | None = None, **given: Any) -> dict[str, Any]:
    result = called(service, name, token, **given)
    assert not result.is_error, result
    return result.structured_content


def refused(service: Service, name: str, token: str | None = None, **given: Any) -> dict[str, Any]:
    result = called(service, name, token, **given)
    assert result.is_error
    assert result.structured_content["message"]
    return result.structured_content


def said(service: Service, method: str, *, version: str = "", **params: Any) -> Any:
    """The answer to one message, without any client."""
    headers = ACCEPT | ({"mcp-protocol-version": version} if version else {})
    if version > "2026":
        headers |= {"mcp-method": method}
        named = "io.modelcontextprotocol"
        params["_meta"] = {f"{named}/protocolVersion": version, f"{named}/clientCapabilities": {}}
    with service.http() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return http.post("/mcp", json=body, headers=headers)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_version_of_the_handshake_is_spoken_without_sessions(service, version):
    info = {"name": "t", "version": "1"}
    begun = said(service, "initialize", protocolVersion=version, capabilities={}, clientInfo=info)
    assert begun.json()["result"]["protocolVersion"] == version
    assert "mcp-session-id" not in begun.headers
    listed = said(service, "tools/list", version=version).json()["result"]["tools"]
    assert [each["name"] for each in listed] == TOOLS


def test_the_protocol_without_a_handshake_is_spoken_at_the_same_address(service):
    version = "2026-07-28"
    found = said(service, "server/discover", version=version).json()["result"]
    assert found["supportedVersions"] == [version]
    listed = said(service, "tools/list", version=version).json()["result"]
    assert [each["name"] for each in listed["tools"]] == TOOLS
    assert listed["cacheScope"] == "private"


def test_a_client_finds_describes_samples_and_asks(service):
    found = answer(service, "search_datasets", search="items")
    assert [each["alias"] for each in found["datasets"]] == ["alice/items"]
    told = answer(service, "describe_dataset", dataset="alice/items")
    assert told["records"] == 4
    assert {"name": "price", "type": "Decimal"} in told["columns"]
    rows = answer(service, "sample_rows", dataset="alice/items", limit=2)["rows"]
    assert [row["id"] for row in rows] == [0, 1]
    assert rows[1]["place"] == {"city": "c1", "zip": 1}
    asked = answer(service, "query", sql='select sum(id) as s from "alice/items"')
    assert asked["rows"] == [{"s": 6}]
    assert asked["input"]["datasets"][0]["id"] == told["id"]
    by_id = answer(service, "describe_dataset", dataset=told["id"])
    assert by_id == told


def test_fastmcp_lists_and_calls_and_reads_that_tools_change_nothing(service):
    fastmcp = pytest.importorskip("fastmcp", reason="needs fastmcp")

    async def talk() -> tuple[Any, Any]:
        async with fastmcp.Client(f"{service.url}/mcp/") as client:
            listed = await client.list_tools()
            return listed, await client.call_tool("sample_rows", {"dataset": "alice/items"})

    listed, result = asyncio.run(talk())
    assert [each.name for each in listed] == TOOLS
    for each in listed:
        annotations = each.annotations
        hints = getattr(annotations, "read_only_hint", None)
        assert hints or annotations.readOnlyHint
    assert len(result.structured_content["rows"]) == 4


def test_no_value_loses_a_digit(service):
    rows = answer(service, "sample_rows", dataset="alice/odd")["rows"]
    assert {name: rows[0][name] for name in ODD_TOLD} == ODD_TOLD
    assert {rows[1][name] for name in ODD_TOLD} == {None}


def test_an_answer_is_repeated_by_its_pins_and_proven_to_any_node(service):
    grows = TableMade(service.node.stores, "alice/grows", ITEMS, visibility=PUBLIC)
    grows.add([item(1)])
    sql = 'select count(*) as n from "alice/grows"'
    first = answer(service, "query", sql=sql, proof=True)
    grows.add([item(2)])
    pins = first["input"]["datasets"]
    assert answer(service, "query", sql=sql, datasets=pins)["rows"] == [{"n": 1}]
    assert answer(service, "query", sql=sql)["rows"] == [{"n": 2}]
    proof = {name: first[name] for name in ("input", "subQueries", "commitment", "proof")}
    with service.http() as http:
        assert http.post("/verify", json=proof).json()["ok"] is True


def test_an_answer_that_is_too_long_is_cut_and_says_so(service):
    sql = "select value as v, repeat('x', 1000) as t from generate_series(1, 50)"
    found = answer(service, "query", sql=sql)
    assert found["truncated"] is True
    assert 0 < len(found["rows"]) < 50
    assert "OFFSET" in found["note"]
    assert len(json.dumps(found)) < 21_000
    whole = refused(service, "query", sql=sql, proof=True)
    assert whole["error"] == "AnswerTooLong"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("describe_dataset", {"dataset": "{}"}),
        ("sample_rows", {"dataset": "{}"}),
        ("query", {"sql": 'select * from "{}"'}),
    ],
)
def test_a_hidden_dataset_is_as_unknown_as_none(service, name, given):
    def asked(dataset: str, token: str | None) -> Any:
        told = {key: text.format(dataset) for key, text in given.items()}
        return called(service, name, token, **told)

    for token in (None, service.token("bob")):
        hidden, missing = (asked(each, token) for each in ("carol/hidden", "carol/absent"))
        assert hidden.is_error
        plain = missing.content[0].text.replace("absent", "hidden")
        assert hidden.content[0].text == plain
        found = answer(service, "search_datasets", token, account="carol")
        assert found["datasets"] == []
    assert not asked("carol/hidden", service.token("carol")).is_error


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("query", {"sql": "drop table x"}, "InvalidQuery"),
        ("query", {"sql": "select 1", "limit": 10**9}, "TooManyRows"),
        ("query", {"sql": "select 1", "limit": 0}, "InvalidToolArguments"),
        ("query", {"query": "select 1"}, "InvalidToolArguments"),
        ("query", {"sql": f"select * from {TWICE}"}, "InvalidQuery"),
        ("nothing", {}, "UnknownTool"),
        ("search_datasets", {"search": "x" * 300}, "InvalidToolArguments"),
    ],
)
def test_what_a_tool_refuses_is_a_result_that_says_why(service, name, given, error):
    assert refused(service, name, **given)["error"] == error


def test_numbers_may_come_as_texts(service):
    assert len(answer(service, "sample_rows", dataset="alice/items", limit="1")["rows"]) == 1


def test_a_bad_token_is_told_in_words_that_clients_show(service):
    with service.http("ka_of_nobody") as http:
        answered = http.post("/mcp", json={}, headers=ACCEPT)
    assert answered.status_code == 401
    assert answered.headers["www-authenticate"] == "Bearer"
    assert "odf-node token create" in answered.json()["error"]["message"]
    with pytest.raises(Exception, match="token create"):
        _raise_inner(lambda: called(service, "sample_rows", "ka_of_nobody", dataset="alice/items"))


def _raise_inner(call: Any) -> None:
    try:
        call()
    except BaseExceptionGroup as group:
        raise RuntimeError(repr(group)) from None


def test_a_token_that_is_taken_away_between_two_calls_reads_no_more(service):
    token = service.token("carol")
    assert answer(service, "sample_rows", token, dataset="carol/hidden")["rows"]
    with service.http(token) as http:
        for each in http.get("/accounts/me/tokens").json()["tokens"]:
            http.delete(f"/accounts/me/tokens/{each['id']}")
        answered = http.post("/mcp", json={}, headers=ACCEPT)
    assert answered.status_code == 401


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_there_is_no_stream_and_no_session(service, path):
    with service.http() as http:
        for method in ("GET", "DELETE"):
            answered = http.request(method, path, headers=ACCEPT)
            assert (answered.status_code, answered.headers["allow"]) == (405, "POST")
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert http.post(path, json=note, headers=ACCEPT).status_code == 202
        assert http.post(path, content=b"{", headers=ACCEPT).status_code == 400
        long = b'{"x":"' + b"x" * (3 << 20) + b'"}'
        kind = ACCEPT | {"content-type": "application/json"}
        assert http.post(path, content=long, headers=kind).status_code == 413


def test_a_node_without_anonymous_access_tells_strangers_nothing(tmp_path):
    with serving(tmp_path, allow_anonymous=False) as service, service.http() as http:
        answered = http.post("/mcp", json={}, headers=ACCEPT)
    assert answered.status_code == 401
    assert answered.json()["error"]["message"]


def test_the_command_serves_a_node_on_standard_input_and_output(service):
    from mcp import StdioServerParameters

    token = service.token("carol")
    words = ["-c", "from odf_node.cli.main import main; main()", "mcp", service.url]
    server = StdioServerParameters(
        command=sys.executable, args=words, env={"ODF_NODE_TOKEN": token}
    )

    async def talk() -> Any:
        async with mcp.Client(server) as client:
            listed = await client.list_tools()
            names = [each.name for each in listed.tools]
            return names, await client.call_tool("sample_rows", {"dataset": "carol/hidden"})

    names, result = asyncio.run(talk())
    assert names == TOOLS
    assert [row["id"] for row in result.structured_content["rows"]] == [7]


def test_a_node_without_the_sdk_says_what_to_install(tmp_path, monkeypatch):
    from odf_storage.runtime import extras

    with serving(tmp_path) as service, service.http() as http:
        monkeypatch.setattr(extras, "find_spec", lambda name: None)
        answered = http.post("/mcp", json={}, headers=ACCEPT)
    assert "odf-node[mcp]" in answered.json()["error"]["message"]
