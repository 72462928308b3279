"""How a smart transfer begins, or is refused before it does: upgrades on a real socket."""

from __future__ import annotations

import contextlib
import json
import socket

import pytest
from raw_peer import (
    VERSION,
    files_of,
    request_pull,
    talking,
)
from service import seeded, serving, ten_rows
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from odf_storage.stores.ports.values import Visibility


@pytest.fixture(scope="module")
def chain(single):
    chain = ten_rows()
    single.keep(chain)
    return chain


def refused(service, path, token=None, **headers):
    """Status, reason phrase and body of a refused upgrade."""
    sent = {**VERSION, **headers, **({"authorization": f"Bearer {token}"} if token else {})}
    sent = {name: value for name, value in sent.items() if value is not None}
    url = service.url.replace("http", "ws") + path
    with pytest.raises(InvalidStatus) as answer, connect(url, additional_headers=sent):
        pass
    return answer.value.response.status_code, (answer.value.response.body or b"").decode()


def raw_upgrade(service, path, *lines):
    """The first bytes that answer an upgrade: one read."""
    host, port = service.url.removeprefix("http://").split(":")
    head = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "x-odf-smtp-version: 1",
        *lines,
    ]
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall("\r\n".join([*head, "", ""]).encode())
        return raw.recv(65536)


@pytest.mark.parametrize(
    ("path", "line", "status"),
    [
        ("/foo/push?a=" + "x" * 9_000, "X: y", "414"),
        ("/foo/pull", "X: " + "y" * 9_000, "431"),
        ("/foo/pull", "Content-Length: 5", "400"),
    ],
)
def test_an_upgrade_that_cannot_be_read_is_answered_and_its_connection_closed(
    single, path, line, status
):
    answer = raw_upgrade(single, path, line)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"connection: close" in answer.lower()


def test_a_refusal_leaves_in_one_piece(single):
    answer = raw_upgrade(single, "/nobody-made-this/push")
    assert answer.startswith(b"HTTP/1.1 401 Unauthorized")
    assert answer.endswith(b'{"message":"Unauthenticated"}')


@pytest.fixture(scope="module")
def shared(multi):
    """A private and a public dataset of alice."""
    multi.keep(seeded(), "alice/hidden", Visibility.PRIVATE)
    multi.keep(seeded(), "alice/shown")
    return multi


def test_an_upgrade_is_refused_in_the_order_and_the_words_of_the_reference(shared):
    alice, bob = shared.token("alice"), shared.token("bob")
    old = shared.token("alice", expires_at=shared.node.clock())
    not_here = "/alice/nothing"
    for path, token, headers, expected in (
        (
            "/alice/shown/pull",
            None,
            {"x-odf-smtp-version": "0"},
            (400, "Incompatible client version"),
        ),
        (
            "/alice/shown/push",
            alice,
            {"x-odf-smtp-version": "0"},
            (400, "Incompatible client version"),
        ),
        ("/alice/shown/pull", None, {"x-odf-smtp-version": None}, (400, None)),
        ("/alice/shown/pull", None, {"x-odf-smtp-version": "one"}, (400, None)),
        (f"{not_here}/push", None, {"x-odf-smtp-version": "0"}, (401, "Unauthenticated")),
        (f"{not_here}/push", None, {}, (401, "Unauthenticated")),
        (f"{not_here}/push", bob, {}, (403, "Unauthorized")),
        (f"{not_here}/push", old, {}, (401, "Authentication token expired")),
        (f"{not_here}/push", "ka_x", {}, (401, "Authentication token invalid")),
        (f"{not_here}/pull", old, {}, (404, "")),
        ("/alice/shown/push", None, {}, (403, "")),
        ("/alice/shown/push", bob, {}, (403, "")),
        ("/alice/hidden/push", None, {}, (401, "Unauthenticated")),
        ("/alice/hidden/push", bob, {}, (403, "Unauthorized")),
        ("/alice/hidden/pull", bob, {}, (404, "")),
        ("/alice/_/pull", None, {}, (400, "")),
        (
            "/alice/shown/pull",
            None,
            {"authorization": "Bearer "},
            (400, "Invalid Bearer token header"),
        ),
        ("/alice/shown/elsewhere", None, {}, (404, "Not Found")),
    ):
        status, body = refused(shared, path, token, **headers)
        assert status == expected[0], (path, headers, body)
        if expected[1] is not None:
            text = json.loads(body)["message"] if body.startswith("{") else body
            assert text == expected[1]


def test_a_refusal_is_no_error_of_the_service(single, caplog):
    assert refused(single, "/nowhere/pull") == (404, "")
    with single.http() as http:
        http.get("/info")  # the server has been at the refusal's end by now
    assert "handshake" not in caplog.text


def test_refusals_are_plain_documents_of_one_message(shared):
    assert refused(shared, "/bob/x/push") == (401, '{"message":"Unauthenticated"}')
    assert refused(shared, "/alice/shown/pull", **{"x-odf-smtp-version": "2"}) == (
        400,
        '{"message":"Incompatible client version"}',
    )


def test_no_subprotocol_is_needed_and_one_is_echoed_when_offered(single, chain):
    with talking(single, "/foo/pull") as peer:
        assert peer.socket.subprotocol is None
    offered = raw_upgrade(
        single, "/foo/pull", "Sec-WebSocket-Protocol: odf/smart-transfer-protocol/v1"
    )
    assert b" 101 " in offered
    assert b"sec-websocket-protocol: odf/smart-transfer-protocol/v1" in offered.lower()


def test_a_ping_is_answered_and_none_is_sent(single, chain):
    with talking(single, "/foo/pull") as peer:
        assert peer.socket.ping().wait(timeout=60)
        assert "Ok" in request_pull(peer)


def test_asking_without_an_upgrade_is_told_to_upgrade(shared):
    with shared.http() as client:
        assert client.get("/alice/shown/pull").status_code == 426
        assert client.get("/alice/hidden/pull").status_code == 404
        assert client.get("/alice/shown/push").status_code == 403


def test_the_public_address_of_the_settings_wins_over_the_host_header(tmp_path):
    chain = ten_rows()
    with serving(tmp_path, public_url="https://data.example/odf") as service:
        service.keep(chain)
        with talking(service, "/foo/pull") as peer:
            request_pull(peer)
            peer.ask({})
            strategy = peer.ask({"object_files": files_of(chain)})["object_transfer_strategies"][0]
    assert strategy["download_from"]["url"].startswith("https://data.example/odf/foo/data/f1620")


def test_a_message_above_the_limit_ends_the_connection(single, chain):
    with talking(single, "/foo/pull") as peer:
        with contextlib.suppress(ConnectionClosed):
            peer.say("[" + "1," * (40 * 1024 * 1024) + "1]")
        with pytest.raises(ConnectionClosed):
            peer.hear()
