"""No route, of pages or of the API, waits for a body that does not come."""

from __future__ import annotations

import logging
import socket
import time
from pathlib import Path

import pytest
import yaml
from servers import wait_until
from service import Service, serving, ten_rows

from odf_node.service.applications.pages import OWN
from odf_node.service.auth.visitors import COOKIE

DOCUMENT = Path(__file__).parents[2] / "openapi" / "openapi.yaml"
WITH_BODY = ("post", "put", "patch", "delete")
IDLE_S = 1.0
SLACK_S = 25.0
"""For a busy machine; without the limit the connections stay open for ever."""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("paced"), client_idle_s=IDLE_S) as service:
        yield service


def _routes() -> list[tuple[str, str]]:
    document = yaml.safe_load(DOCUMENT.read_text())
    api = [
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in WITH_BODY
        if method in item
    ]
    return [*api, *(("POST", path) for path in (*sorted(OWN), "/oai"))]


def _begun(service: Service, method: str, path: str, token: str) -> socket.socket:
    """Send the head of a request and one byte of its body."""
    host, port = service.url.removeprefix("http://").split(":")
    link = socket.create_connection((host, int(port)), 10)
    path = path.replace("{dataset}", "foo").replace("{", "").replace("}", "")
    kind = "application/x-www-form-urlencoded" if path in OWN else "application/json"
    if path == "/v/publish":
        kind = "multipart/form-data; boundary=b"
    link.sendall(
        f"{method} {path} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {token}\r\n"
        f"cookie: {COOKIE}={token}\r\norigin: {service.url}\r\nsec-fetch-site: same-origin\r\n"
        "accept: application/json, text/event-stream\r\n"
        f"content-type: {kind}\r\ncontent-length: 1000\r\n\r\n{{".encode()
    )
    return link


def test_every_route_with_a_body_gives_up_a_silent_client(node):
    node.keep(ten_rows())
    token, routes = node.token(), _routes()
    assert len(routes) > 60
    links = [(each, _begun(node, *each, token)) for each in routes]
    until = time.monotonic() + IDLE_S + SLACK_S
    waiting, crashed = [], []
    for route, link in links:
        with link:
            link.settimeout(max(0.05, until - time.monotonic()))
            try:
                if link.recv(10).startswith(b"HTTP/1.1 5"):
                    crashed.append(route)
            except TimeoutError:
                waiting.append(route)
            except ConnectionError:
                pass
    assert (waiting, crashed) == ([], [])


def test_no_route_takes_a_client_that_leaves_for_a_fault_of_the_node(node, caplog):
    node.keep(ten_rows(), "kamu/left")
    token, routes = node.token(), _routes()
    for route in routes:
        _begun(node, *route, token).close()
    with node.http() as client:
        client.get("/system/health")  # which is read after those that were sent before
    wait_until(lambda: node.node.counters.in_flight == 0, "the end of all requests")
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
