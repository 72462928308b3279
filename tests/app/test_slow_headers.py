"""Who sends the header of a request too slowly, or nothing at all, does not keep a connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from threaded_node import ThreadedNode, threaded_node

WAIT_S = 0.5


@pytest.fixture(scope="module")
def node(tmp_path_factory) -> Iterator[ThreadedNode]:
    data = tmp_path_factory.mktemp("slow") / "node"
    with threaded_node(data, header_wait_s=WAIT_S) as node:
        yield node


@pytest.fixture
def link(node) -> Iterator[socket.socket]:
    host, _, port = node.url.removeprefix("http://").rstrip("/").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as link:
        yield link


def all_that_comes(link: socket.socket) -> bytes:
    received = b""
    while piece := link.recv(4096):
        received += piece
    return received


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
