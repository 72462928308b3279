"""Requests in a row on a connection, and clients that leave in between: each request gets its own
answer, in order, and none makes an error in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from servers import wait_until
from threaded_node import ThreadedNode, all_that_comes, linked, threaded_node

from odf_node.service.processes.server import PatientHttp

HEALTH = b"GET /system/health HTTP/1.1\r\nHost: x\r\n\r\n"
LISTS = HEALTH.replace(b"/system/health", b"/datasets")  # which takes a thread
SLOW = b"POST /platform/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
FORM = SLOW.replace(b"/platform/login", b"/v/sign-in")
LAST = HEALTH.replace(b"Host: x", b"Host: x\r\nConnection: close")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedNode]:
    with threaded_node(tmp_path_factory.mktemp("row") / "node") as node:
        yield node


def answers(received: bytes) -> list[bytes]:
    return [each[:3] for each in received.split(b"HTTP/1.1 ")[1:]]


def test_requests_in_a_row_are_answered_in_order(node):
    with linked(node) as link:
        link.sendall(HEALTH * 50 + SLOW + b"{}" + LAST)
        assert answers(all_that_comes(link)) == [*[b"200"] * 50, b"400", b"200"]


def test_a_connection_of_too_many_requests_in_a_row_is_closed(node):
    most = PatientHttp.max_waiting_requests
    with linked(node) as link:
        link.sendall(HEALTH * 20 * most)
        assert len(answers(all_that_comes(link))) <= most + 1
    with linked(node) as link:
        link.sendall(LAST)
        assert answers(all_that_comes(link)) == [b"200"]


@pytest.mark.parametrize("broken", [b"no HTTP\r\n\r\n", SLOW.replace(b" 2", b" x")])
def test_what_is_no_request_is_not_answered_before_those_ahead_of_it(node, broken):
    with linked(node) as link:
        link.sendall(HEALTH + broken)
        received = all_that_comes(link)
        assert answers(received) in ([], [b"200"])
    with linked(node) as link:
        link.sendall(broken)
        assert answers(all_that_comes(link)) == [b"400"]


@pytest.mark.parametrize("sent", [LISTS * 90, LISTS + b"no HTTP\r\n\r\n", FORM, SLOW, LISTS + SLOW])
def test_a_client_that_leaves_makes_no_error(node, caplog, sent):
    caplog.set_level(logging.INFO)
    for _ in range(5):
        with linked(node) as link:
            link.sendall(sent)
            if sent.startswith(LISTS):
                link.recv(10)
    with linked(node) as link:
        link.sendall(LAST)
        all_that_comes(link)
    wait_until(lambda: node.node.counters.in_flight == 0, "the end of all requests")
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
