"""Webhooks over HTTP and on the command line: whose they are, and where they may go."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from nodes import RunningNode, served
from servers import wait_until
from service import Service, described, seeded, serving
from standardwebhooks import Webhook as Standard
from web_server import Answer, Asked, web_server

from odf_node.cli.main import main
from odf_node.service.webhooks.delivering import Deliverer, Delivering
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.values import Scope, Visibility

LOOPBACK = ("127.0.0.0/8",)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("node")
    given: dict[str, Any] = {"webhook_networks": LOOPBACK, "webhooks_account": 3}
    with serving(data, **given, webhook_threads=0) as service:
        service.keep(seeded(), "kamu/open")
        service.keep(seeded(), "kamu/closed", Visibility.PRIVATE)
        yield service


@pytest.fixture
def http(service: Service) -> Iterator[httpx.Client]:
    with service.http(service.token()) as http:
        yield http


def test_the_secret_is_shown_once_and_kept_sealed(service: Service, http: httpx.Client) -> None:
    made = http.post("/open/webhooks", json={"url": "http://127.0.0.1:9/hook"}).json()
    path = f"/open/webhooks/{made['id']}"
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert {**http.get(path).json()} == {**made, "attempts": []}
    assert http.get("/open/webhooks").json() == {"webhooks": [made]}
    kept = service.node.stores.webhooks.find(made["id"])
    assert kept is not None
    assert secret.encode() not in kept.sealed_secret
    assert secret not in repr(kept)
    assert http.delete(path).status_code == 204
    assert http.get(path).status_code == 404
    assert http.delete(path).status_code == 404


def test_a_webhook_is_its_accounts_alone(service: Service, http: httpx.Client) -> None:
    with service.http(service.token("guest")) as guest:
        made = guest.post("/open/webhooks", json={"url": "http://127.0.0.1:9/theirs"})
        assert made.status_code == 201
        path = f"/open/webhooks/{made.json()['id']}"
        assert http.get("/open/webhooks").json() == {"webhooks": []}
        for method, asked in (("GET", path), ("DELETE", path), ("POST", path + "/ping")):
            assert http.request(method, asked).status_code == 404
        assert http.post(path + "/replay").status_code == 404
        assert guest.get(path.replace("/open/", "/closed/")).status_code == 404
        assert (
            guest.post("/closed/webhooks", json={"url": "http://127.0.0.1:9/"}).status_code == 404
        )
        assert guest.delete(path).status_code == 204


def test_for_a_while_both_secrets_sign_and_then_the_new_one_alone(tmp_path: Path) -> None:
    ahead_s = 0

    def clock() -> Instant:
        return Instant(system_clock().ns + ahead_s * NANOS)

    def signed_by(secret: str, asked: Asked) -> bool:
        """By the signature alone: the real library refuses moments that are off."""
        headers = {name.lower(): value for name, value in asked.headers.items()}
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), tz=UTC)
        signature = Standard(secret).sign(headers["webhook-id"], at, asked.body.decode())
        return signature in headers["webhook-signature"].split(" ")

    given: dict[str, Any] = {"webhook_networks": LOOPBACK, "webhook_threads": 0}
    with (
        serving(tmp_path / "node", clock=clock, **given, webhook_old_secret_s=60) as service,
        web_server(lambda _: Answer(204)) as server,
    ):
        service.keep(seeded(), "kamu/open")
        with service.http(service.token()) as http, service.http(service.token("guest")) as guest:
            made = http.post("/open/webhooks", json={"url": f"http://127.0.0.1:{server.port}/"})
            path, old = f"/open/webhooks/{made.json()['id']}", made.json()["secret"]
            assert guest.post(path + "/secret").status_code == 404
            answer = http.post(path + "/secret")
            new = answer.json()["secret"]
            assert answer.status_code == 200
            assert new != old
            assert "secret" not in http.get(path).json()
            for after_s, expected in ((0, (True, True)), (61, (False, True))):
                ahead_s = after_s
                assert http.post(path + "/ping").json()["status"] == 204
                asked = server.asked[-1]
                assert (signed_by(old, asked), signed_by(new, asked)) == expected


def test_who_may_not_manage_has_no_webhooks(service: Service) -> None:
    body = {"url": "http://127.0.0.1:9/"}
    with service.http() as nobody:
        assert nobody.post("/open/webhooks", json=body).status_code == 401
    with service.http(service.token("kamu", Scope.READ)) as reading:
        assert reading.post("/open/webhooks", json=body).status_code == 403
        assert reading.get("/open/webhooks").status_code == 403


def test_an_account_has_so_many_webhooks_at_a_dataset(http: httpx.Client) -> None:
    made = [http.post("/closed/webhooks", json={"url": "http://127.0.0.1:9/"}) for _ in range(4)]
    assert [each.status_code for each in made] == [201, 201, 201, 413]
    for each in made[:3]:
        http.delete(f"/closed/webhooks/{each.json()['id']}")


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("ftp://127.0.0.1/", 400),
        ("http://user:word@127.0.0.1/", 400),
        ("http://127.0.0.1:99999/", 400),
        ("http://[::1", 400),
        ("http:///path", 400),
        ("http://127.0.0.1/" + "x" * 2048, 400),
        ("http://no-such-host.invalid/", 400),
        ("http://10.0.0.1/", 403),
        ("http://169.254.169.254/latest/meta-data", 403),
        ("http://[::1]/", 403),
        ("http://[::ffff:10.0.0.1]/", 403),
    ],
)
def test_an_address_that_deliveries_may_not_go_to_is_refused(
    http: httpx.Client, url: str, status: int
) -> None:
    answer = http.post("/open/webhooks", json={"url": url})
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"url": 1}', '{"url": "http://127.0.0.1/", "more": 1}', "\xff"]
)
def test_a_body_that_is_no_webhook_is_refused(http: httpx.Client, body: str) -> None:
    headers = {"content-type": "application/json"}
    answer = http.post("/open/webhooks", content=body.encode("latin-1"), headers=headers)
    assert answer.status_code == 400
    bad = http.post("/open/webhooks", json={"url": "http://127.0.0.1:9/", "since": "yesterday"})
    assert bad.status_code == 400


def test_an_address_that_became_internal_is_not_delivered_to(tmp_path: Path) -> None:
    """The ranges that were allowed when the webhook was added are not those of today."""
    asked: list[Asked] = []

    def answer(one: Asked) -> Answer:
        asked.append(one)
        return Answer(204)

    given: dict[str, Any] = {"webhook_retry_s": (0.05, 0.05), "poll_s": 0.05}
    with web_server(answer) as server:
        with serving(tmp_path, webhook_networks=LOOPBACK, webhook_threads=0) as service:
            service.keep(seeded(), "kamu/one")
            body = {"url": f"http://127.0.0.1:{server.port}/", "since": "beginning"}
            with service.http(service.token()) as http:
                made = http.post("/one/webhooks", json=body).json()
        with serving(tmp_path, **given) as service, service.http(service.token()) as http:
            path = f"/one/webhooks/{made['id']}"
            wait_until(lambda: http.get(path).json()["state"] == "paused", "pause")
            found = http.get(path).json()
            pinged = http.post(path + "/ping").json()
    assert asked == []
    assert found["problem"]["error"] == pinged["error"] == "HostRefused"
    assert {each["error"] for each in found["attempts"]} == {"HostRefused"}


def test_two_nodes_on_one_database_deliver_each_block_once_between_them(tmp_path: Path) -> None:
    seen: list[str] = []

    def answer(one: Asked) -> Answer:
        seen.append(one.headers["webhook-id"])
        time.sleep(0.05)
        return Answer(204)

    given: dict[str, Any] = {"webhook_networks": LOOPBACK, "poll_s": 0.01}
    with web_server(answer) as server, serving(tmp_path, **given) as service:
        node, chain = service.node, seeded()
        other = Deliverer(node.part(Delivering), threads=4, poll_s=0.01)
        entry = service.keep(chain, "kamu/two")
        with service.http(service.token()) as http:
            body = {"url": f"http://127.0.0.1:{server.port}/"}
            path = f"/two/webhooks/{http.post('/two/webhooks', json=body).json()['id']}"
            for number in range(10):
                before = chain.head
                chain.add(described(f"number {number}"))
                dataset = node.stores.dataset(DatasetRef(id=entry.id))
                dataset.commit([chain.blocks[-1]], expected=before)
                other.look()

            def is_told() -> bool:
                other.look()
                return bool(http.get(path).json()["position"] == str(chain.head))

            wait_until(is_told, "all deliveries")
        other.stop()
    assert len(seen) == len(set(seen)) == 10


@pytest.mark.e2e
def test_a_node_killed_before_the_position_moved_delivers_again_with_the_same_id(
    tmp_path: Path,
) -> None:
    seen: list[str] = []
    nodes: list[RunningNode] = []
    is_killed = threading.Event()

    def answer(one: Asked) -> Answer:
        seen.append(one.headers["webhook-id"])
        if len(seen) == 2:
            nodes[0].process.send_signal(signal.SIGKILL)
            nodes[0].process.wait()
            is_killed.set()
        return Answer(204)

    env = {
        "ODF_NODE_WEBHOOK_NETWORKS": '["127.0.0.0/8"]',
        "ODF_NODE_OUTGOING_S": "1",
        "ODF_NODE_WORKERS": "0",
    }
    data, chain = tmp_path / "data", seeded()
    for number in range(3):
        chain.add(described(f"number {number}"))
    with serving(data, webhook_networks=LOOPBACK, webhook_threads=0) as service:
        service.keep(chain, "kamu/killed")
        token = service.token()
        with web_server(answer) as server, service.http(token) as http:
            body = {"url": f"http://127.0.0.1:{server.port}/", "since": "beginning"}
            made = http.post("/killed/webhooks", json=body).json()
            path = f"/killed/webhooks/{made['id']}"
            with served(data, **env) as node:
                nodes.append(node)
                assert is_killed.wait(30)
            assert http.get(path).json()["position"] == str(chain.blocks[0].hash)
            with served(data, **env):
                wait_until(
                    lambda: http.get(path).json()["position"] == str(chain.head),
                    "all deliveries",
                )
    blocks = [str(each.hash) for each in chain.blocks]
    assert [each.rpartition("-")[2] for each in seen] == [blocks[0], blocks[1], *blocks[1:]]
    assert len(set(seen)) == 4


def test_the_command_adds_tries_shows_replays_and_removes(service: Service) -> None:
    runner, token = CliRunner(), service.token()
    url = f"{service.url}/open"

    def run(*words: str) -> Any:
        done = runner.invoke(main, ["webhook", *words, "--token", token, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    with web_server(lambda _: Answer(204)) as server:
        made = run("add", url, f"http://127.0.0.1:{server.port}/", "--since", "beginning")
        assert made["secret"].startswith("whsec_")
        pinged = run("ping", url, made["id"])
        assert (pinged["status"], pinged["error"]) == (204, None)
        event = json.loads(server.asked[0].body)
        assert event["type"] == "org.opendatafabric.ping"
        assert [each["id"] for each in run("list", url)["webhooks"]] == [made["id"]]
        assert run("show", url, made["id"])["attempts"] == [pinged]
        assert run("replay", url, made["id"])["position"] is None
        plain = runner.invoke(main, ["webhook", "show", url, made["id"], "--token", token])
        assert "active" in plain.output
        assert "204  taken" in plain.output
        assert run("remove", url, made["id"]) == {"removed": made["id"]}
