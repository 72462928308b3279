"""A header that comes too slowly, or has no end, keeps no connection and takes no memory."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator

import pytest
from threaded_node import ThreadedNode, all_that_comes, linked, threaded_node

from odf_node.service.processes.server import PatientHttp

WAIT_S = 0.5


@pytest.fixture(scope="module")
def node(tmp_path_factory) -> Iterator[ThreadedNode]:
    data = tmp_path_factory.mktemp("slow") / "node"
    limits = {"max_url_bytes": 2048, "max_header_bytes": 4096, "max_headers": 20}
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in {**limits, "header_wait_s": WAIT_S}.items():
            patch.setattr(PatientHttp, name, limit)
        with threaded_node(data) as node:
            yield node


@pytest.fixture
def patient(node, monkeypatch) -> None:
    """For tests of what comes; on a busy machine that takes longer than `WAIT_S`."""
    monkeypatch.setattr(PatientHttp, "header_wait_s", 60.0)


@pytest.fixture
def link(node) -> Iterator[socket.socket]:
    with linked(node) as link:
        yield link


@pytest.mark.parametrize("begun", [b"", b"GET /sys", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
def test_a_header_that_does_not_come_ends_the_connection(link, begun):
    link.sendall(begun)
    began = time.monotonic()
    assert all_that_comes(link).startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - began >= WAIT_S / 2


def test_byte_by_byte_is_no_way_around(link):
    def drip() -> None:
        for byte in b"GET /system/health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"y" * 100_000:
            link.sendall(bytes([byte]))
            time.sleep(0.02)

    with pytest.raises(OSError, match=r"reset|[Bb]roken"):
        drip()


def test_the_next_request_of_a_connection_is_waited_for_as_well(link):
    link.sendall(b"GET /system/health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert link.recv(4096).startswith(b"HTTP/1.1 200 ")
    time.sleep(2 * WAIT_S)  # between requests one may be silent
    link.sendall(b"GET /system/health HTTP/1.1\r\n")
    assert b"HTTP/1.1 408 " in all_that_comes(link)


def test_a_body_may_take_longer(link):
    link.sendall(b"POST /platform/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
    time.sleep(2 * WAIT_S)
    link.sendall(b"}")
    assert link.recv(4096).startswith(b"HTTP/1.1 4")


HEALTH = b"GET /system/health HTTP/1.1\r\nHost: x\r\n"
LOGIN = b"POST /platform/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEALTH + b"X-Long: " + b"y" * 5000 + b"\r\n\r\n", b"431 "),
        (HEALTH + b"X-Endless: " + b"y" * 9000, b"431 "),
        (HEALTH + b"x" * 9000, b"431 "),
        (HEALTH + b"X: y\r\n" * 30 + b"\r\n", b"431 "),
        (b"GET /" + b"x" * 3000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414 "),
        (b"GET /" + b"x" * 9000, b"414 "),
        (LOGIN + b"0\r\nX-Long: " + b"y" * 9000, b"431 "),
        (LOGIN + b"0\r\n" + b"X: y\r\n" * 30, b"431 "),
        (LOGIN + b"1;" + b"x" * 9000, b"431 "),
    ],
    ids=["line", "value", "name", "lines", "url", "open-url", "trailer", "trailers", "extension"],
)
def test_a_header_without_an_end_is_refused_and_the_connection_closed(patient, link, sent, status):
    for at in range(0, len(sent), 1000):  # as a network would bring it
        link.sendall(sent[at : at + 1000])
        time.sleep(0.001)
    for _ in range(4):  # what came in one piece counts with the next
        if not select.select([link], [], [], 2)[0]:
            link.sendall(sent[-1:] * 5000)
    answer = all_that_comes(link)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"application/problem+json" in answer
    assert b'"limit":' in answer


def test_what_is_refused_is_not_kept(node, link):
    """The line would grow in the parser until it is whole."""

    def send_without_end() -> None:
        link.sendall(HEALTH + b"X-Endless: ")
        for _ in range(1000):
            link.sendall(b"y" * 100_000)

    with pytest.raises(OSError, match=r"reset|[Bb]roken"):
        send_without_end()


def test_headers_within_the_limits_are_taken(link):
    link.sendall(HEALTH + b"X-Long: " + b"y" * 3000 + b"\r\n" + b"X: y\r\n" * 15 + b"\r\n")
    assert link.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_each_request_of_a_connection_has_limits_of_its_own(link):
    for _ in range(4):
        link.sendall(HEALTH + b"X-Long: " + b"y" * 3000 + b"\r\n\r\n")
        assert link.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_body_of_any_length_is_no_header(link):
    piece = b"%x\r\n" % 500 + b" " * 500 + b"\r\n"
    link.sendall(LOGIN + piece * 20 + b"0\r\n\r\n")
    assert not link.recv(4096).startswith(b"HTTP/1.1 431 ")


def test_a_trailer_is_no_header(link):
    """A proxy looks at headers: what it would have taken out must not come in behind the body."""
    chunked = HEALTH + b"Transfer-Encoding: chunked\r\n"
    malformed = b"Authorization: Bearer\r\n"
    link.sendall(chunked + malformed + b"\r\n0\r\n\r\n")
    assert link.recv(4096).startswith(b"HTTP/1.1 400 ")
    link.sendall(chunked + b"\r\n0\r\n" + malformed + b"\r\n")
    assert link.recv(4096).startswith(b"HTTP/1.1 200 ")
