"""Bodies of one account that come in drops: posts of another are taken meanwhile."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from service import serving, ten_rows

from odf_protocol.metadata.events import AddPushSource
from odf_protocol.metadata.sources import MergeStrategyAppend, ReadStepNdJson

ROWS = b'{"city": "A", "population": 1}\n'
LONG = ROWS * 4000
ASYNC = {"prefer": "respond-async", "content-type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shares"), tenancy="multi") as service:
        for account in ("alice", "bob"):
            source = AddPushSource(
                source_name="default", read=ReadStepNdJson(), merge=MergeStrategyAppend()
            )
            service.keep(ten_rows().add(source), f"{account}/foo")
        yield service


def drip(node, address: str, method: str, length: int, more: str = "") -> socket.socket:
    """A request whose body has begun, and goes on some day."""
    host, _, port = node.url.removeprefix("http://").partition(":")
    link = socket.create_connection((host, int(port)), timeout=30)
    head = f"{method} {address} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{more}\r\n{{"
    link.sendall(head.encode())
    return link


def dripping(node, held: ExitStack, method: str, address: str, more: str) -> list[socket.socket]:
    """Forty of them, all of bob."""
    bearer = f"Authorization: Bearer {node.token('bob')}\r\n"
    return [
        held.enter_context(drip(node, address.format(n), method, 1_000_000, bearer + more))
        for n in range(40)
    ]


@pytest.mark.parametrize(
    ("method", "address", "more"),
    [
        ("POST", "/bob/foo/ingest", "Content-Type: application/x-ndjson\r\n"),
        ("POST", "/bob/foo/ingest", "Content-Type: application/x-ndjson\r\nIdempotency-Key: k\r\n"),
        ("PUT", "/bob/foo/data/f1620{:064x}", ""),
    ],
    ids=["posts", "keyed-posts", "objects"],
)
def test_dripping_bodies_of_one_account_leave_turns_for_another(node, method, address, more):
    with ExitStack() as held, node.http(node.token("alice")) as alice:
        dripping(node, held, method, address, more)
        time.sleep(0.5)  # until they are where they wait
        for number, body in enumerate((ROWS, LONG)):
            for key in ({}, {"idempotency-key": f"{method}{len(more)}{number}"}):
                posted = alice.post("/alice/foo/ingest", content=body, headers=ASYNC | key)
                assert posted.status_code == 202, posted.text
        missing = alice.put(f"/alice/foo/data/f1620{'00' * 32}", content=LONG)
        assert missing.status_code == 400  # which came through, and is something else


def test_a_body_below_the_pace_is_ended_with_408(tmp_path):
    with serving(tmp_path, body_pace_s=0.5) as node:
        node.keep(ten_rows())
        bearer = f"Authorization: Bearer {node.token()}\r\n"
        for method, address in (("PUT", f"/foo/data/f1620{'00' * 32}"), ("POST", "/datasets")):
            with drip(node, address, method, 50_000, bearer) as link:
                with suppress(OSError):
                    for _ in range(400):
                        link.sendall(b" ")
                        link.settimeout(0.05)
                        with suppress(TimeoutError):
                            if answer := link.recv(4096):
                                break
                assert answer.startswith(b"HTTP/1.1 408 "), (method, answer)


def test_all_bodies_together_have_so_many_turns(tmp_path):
    """And who waits gets one when another ends."""
    with serving(tmp_path, max_bodies=1) as node:
        node.keep(ten_rows())
        mine = node.http(node.token())
        bearer = f"Authorization: Bearer {node.token()}\r\n"
        link = drip(node, f"/foo/data/f1620{'00' * 32}", "PUT", 1_000_000, bearer)
        with mine, link:
            time.sleep(2)  # until it has its turn
            with pytest.raises(httpx.ReadTimeout):
                mine.put(f"/foo/data/f1620{'01' * 32}", content=LONG, timeout=0.5)
            link.close()
            assert mine.put(f"/foo/data/f1620{'01' * 32}", content=LONG).status_code == 400
