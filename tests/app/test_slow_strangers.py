"""Servers of users that are slow keep nobody but their user waiting."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from dripping import dripping
from servers import wait_until
from service import Service, described, seeded, serving
from web_server import Answer, Asked, web_server

from odf_storage.runtime import networks
from odf_storage.stores.ports.values import Visibility

HERE = ("127.0.0.0/8",)
LOOK_S = 3.0
THREADS = 4
SOON_S = 30.0
"""For a busy machine; without the protections the requests below wait for minutes."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: Any) -> Iterator[Service]:
    given: dict[str, Any] = {
        "mirror_networks": HERE,
        "outgoing_s": LOOK_S,
        "share": 0.125,
        "webhook_networks": HERE,
        "webhook_threads": THREADS,
        "poll_s": 0.1,
        "webhooks_account": 20,
    }
    with serving(tmp_path_factory.mktemp("slow"), tenancy="multi", **given) as service:
        yield service


def took(ask: Any) -> float:
    began = time.monotonic()
    assert ask().status_code == 200
    return time.monotonic() - began


def test_a_remote_that_sends_headers_in_drops_ends_and_holds_up_nobody(service: Service):
    bob, alice = service.token("bob"), service.token("alice")
    with dripping() as port, service.http(bob) as http, ThreadPoolExecutor(50) as pool:

        def create(number: int) -> httpx.Response:
            content = {"name": f"m{number}", "remote": f"http://127.0.0.1:{port}/a/b/"}
            manifest = {"kind": "DatasetMirror", "version": 1, "content": content}
            return http.post("/datasets", content=json.dumps(manifest), timeout=60)

        began = time.monotonic()
        created = [pool.submit(create, number) for number in range(45)]
        time.sleep(0.5)
        with service.http(alice) as other:
            assert took(lambda: other.get("/datasets")) < SOON_S
        answers = [each.result() for each in created]
        assert time.monotonic() - began < LOOK_S + SOON_S
    statuses = sorted(each.status_code for each in answers)
    assert statuses[:-2] == [429] * 43
    assert all(status >= 500 for status in statuses[-2:])
    [refused] = {each.json()["setting"] for each in answers if each.status_code == 429}
    assert refused == "ODF_NODE_SHARE"


def test_pings_of_a_slow_receiver_hold_up_nobody(service: Service):
    release = threading.Event()

    def answer(_: Asked) -> Answer:
        release.wait(60)
        return Answer(204)

    service.keep(seeded(), "kamu/pinged", Visibility.PUBLIC)
    bob, alice = service.token("bob"), service.token("alice")
    with web_server(answer) as server, service.http(bob) as http, ThreadPoolExecutor(50) as pool:
        body = {"url": f"http://127.0.0.1:{server.port}/"}
        made = http.post("/kamu/pinged/webhooks", json=body).json()
        path = f"/kamu/pinged/webhooks/{made['id']}/ping"
        pinged = [pool.submit(http.post, path, timeout=60) for _ in range(45)]
        try:
            time.sleep(0.5)
            with service.http(alice) as other:
                assert took(lambda: other.get("/datasets")) < SOON_S
        finally:
            release.set()
        statuses = sorted(each.result().status_code for each in pinged)
    assert statuses == [200] * 2 + [429] * 43


def test_slow_receivers_of_one_account_delay_no_other(service: Service):
    """Bob's receivers answer after a while; each of them has sixty blocks to hear of."""
    told, slow, most = list[str](), list[str](), list[int]()
    release = threading.Event()

    def answer(one: Asked) -> Answer:
        told.append(one.path)
        if one.path.startswith("/slow"):
            slow.append(one.path)
            most.append(len(slow))
            release.wait(1)
            slow.remove(one.path)
        return Answer(204)

    chain = seeded()
    for number in range(60):
        chain.add(described(f"number {number}"))
    service.keep(chain, "kamu/told", Visibility.PUBLIC)
    with web_server(answer) as server, service.http(service.token("bob")) as bob:
        url = f"http://127.0.0.1:{server.port}"
        for number in range(18):
            body = {"url": f"{url}/slow/{number}", "since": "beginning"}
            assert bob.post("/kamu/told/webhooks", json=body).status_code == 201
        try:
            wait_until(lambda: len(told) >= 1, "a slow delivery")
            with service.http(service.token("alice")) as alice:
                body = {"url": f"{url}/alice", "since": "beginning"}
                assert alice.post("/kamu/told/webhooks", json=body).status_code == 201
                wait_until(lambda: told.count("/alice") >= 60, "alice's deliveries")
            assert max(most) < THREADS, "they had one thread, and perhaps one that was given up"
        finally:
            release.set()
            for each in bob.get("/kamu/told/webhooks").json()["webhooks"]:
                bob.delete(f"/kamu/told/webhooks/{each['id']}")


def test_a_name_whose_servers_do_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch):
    release = threading.Event()
    monkeypatch.setattr(networks, "RESOLVE_S", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait(60) and [])
    began = time.monotonic()
    with pytest.raises(OSError, match="was not resolved within"):
        networks.reachable("slow.example", 443, ())
    assert time.monotonic() - began < SOON_S
    release.set()
