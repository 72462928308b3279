"""Deliveries of webhooks: signed, in order, each until the receiver took it, and no further."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from servers import wait_until
from service import Chain, Service, described, seeded, serving
from standardwebhooks import Webhook as Standard
from standardwebhooks import WebhookVerificationError
from web_server import Answer, Asked, web_server

from odf_node.service.webhooks.delivering import after_failure
from odf_node.service.webhooks.sending import FAILING, ReceiverGone, receiver_refused
from odf_node.service.webhooks.sending import DeliveryAnswer as Outcome
from odf_protocol.identity import DatasetRef
from odf_protocol.instant import NANOS, Instant
from odf_storage.stores.ports.values import (
    DatasetEntry,
    Failed,
    JobOutcome,
    JobSpec,
    Role,
    Succeeded,
    Visibility,
)
from odf_storage.stores.ports.webhooks import WebhookState

QUICK = {
    "webhook_networks": ("127.0.0.0/8",),
    "outgoing_s": 1.0,
    "webhook_retry_s": (0.05,) * 60,
    "poll_s": 0.05,
    "public_url": "https://data.example.com/",
}
NOON = Instant.parse("2050-01-01T12:00:00Z")


@dataclass
class Receiver:
    """A receiver with the real library: takes what is signed, once an id."""

    answer: Callable[[Asked], Answer] = lambda _: Answer(204)
    secret: str = ""
    taken: list[dict[str, Any]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        self.seen.append(headers["webhook-id"])
        answer = self.answer(asked)
        if answer.status // 100 == 2 and self.secret:
            event = Standard(self.secret).verify(asked.body, headers)
            assert event["id"] == headers["webhook-id"]
            if event["id"] not in {each["id"] for each in self.taken}:
                self.taken.append(event)
        return answer

    def blocks(self) -> list[str]:
        return [each["data"]["block"] for each in self.taken]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("node"), **QUICK) as service:
        yield service


def kept(service: Service, name: str, **more: Any) -> tuple[DatasetEntry, Chain]:
    chain = seeded()
    return service.keep(chain, f"kamu/{name}", **more), chain


def commit(service: Service, entry: DatasetEntry, chain: Chain) -> str:
    before = chain.head
    chain.add(described(f"number {len(chain.blocks)}"))
    service.node.stores.dataset(DatasetRef(id=entry.id)).commit([chain.blocks[-1]], expected=before)
    return str(chain.head)


def hooked(service: Service, name: str, url: str, account: str = "kamu", **more: str) -> Any:
    with service.http(service.token(account)) as http:
        made = http.post(f"/{name}/webhooks", json={"url": url, **more})
        assert made.status_code == 201, made.text
        return made.json()


def shown(service: Service, name: str, hook: Any, account: str = "kamu") -> Any:
    with service.http(service.token(account)) as http:
        return http.get(f"/{name}/webhooks/{hook['id']}").json()


def test_each_block_is_delivered_signed_and_in_order(service: Service) -> None:
    entry, chain = kept(service, "signed")
    receiver = Receiver()
    with web_server(receiver) as server:
        made = hooked(service, "signed", f"http://127.0.0.1:{server.port}/in?of=me")
        receiver.secret = made["secret"]
        blocks = [commit(service, entry, chain) for _ in range(5)]
        wait_until(lambda: len(receiver.taken) == 5, "five deliveries")
        asked = server.asked[0]
    assert receiver.blocks() == blocks
    assert len(set(receiver.seen)) == 5
    assert asked.path == "/in?of=me"
    first = receiver.taken[0]
    assert asked.headers["content-type"] == "application/cloudevents+json"
    assert first["specversion"] == "1.0"
    assert first["type"] == "org.opendatafabric.block.appended"
    assert first["source"] == "https://data.example.com/signed"
    assert first["subject"] == "signed"
    assert first["sequence"] == f"{1:020}"
    assert first["data"]["event"] == "SetInfo"
    with pytest.raises(WebhookVerificationError):
        Standard(made["secret"]).verify(
            asked.body + b" ", {k.lower(): v for k, v in asked.headers.items()}
        )
    found = shown(service, "signed", made)
    assert found["position"] == blocks[-1]
    assert [each["status"] for each in found["attempts"]] == [204] * 5
    assert made["secret"] not in json.dumps(found)


def test_polls_that_fail_are_told_once_after_each_success_and_never_why(service: Service) -> None:
    entry, chain = kept(service, "polled")
    receiver, jobs = Receiver(), service.node.stores.jobs

    def polled(outcome: JobOutcome) -> None:
        jobs.submit(JobSpec("poll", entry.id, {"url": "https://secret.example"}))
        claimed = jobs.claim("w", ["poll"], lease=timedelta(seconds=30))
        assert claimed is not None
        jobs.finish(claimed.id, "w", outcome)

    def told() -> list[dict[str, Any]]:
        return [each for each in receiver.taken if each["type"] == FAILING]

    with web_server(receiver) as server:
        made = hooked(service, "polled", f"http://127.0.0.1:{server.port}/")
        receiver.secret = made["secret"]
        for _ in range(2):
            polled(Failed("SourceFailed", "the secret source says no"))
        wait_until(lambda: told(), "the news")
        polled(Failed("SourceFailed", "no"))
        block = commit(service, entry, chain)
        wait_until(lambda: len(receiver.taken) == 2, "the block")
        assert len(told()) == 1
        polled(Succeeded({}))
        polled(Failed("SourceFailed", "no"))
        wait_until(lambda: len(told()) == 2, "the news of the next ones")
    first, again = told()
    assert first["data"]["alias"] == first["subject"] == "polled"
    assert first["data"]["failed"] in (1, 2), "as many as there were at the attempt"
    assert again["data"]["failed"] == 1
    assert set(first["data"]) == {"dataset", "alias", "failed", "since"}
    assert "secret" not in json.dumps(receiver.taken)
    assert receiver.taken[1]["data"]["block"] == block
    assert shown(service, "polled", made)["failures"] == 0


def test_a_receiver_that_was_down_for_a_while_gets_everything_once_an_id(service: Service) -> None:
    entry, chain = kept(service, "down")
    is_up = threading.Event()
    receiver = Receiver(lambda _: Answer(204 if is_up.is_set() else 503))
    with web_server(receiver) as server:
        made = hooked(service, "down", f"http://127.0.0.1:{server.port}/")
        receiver.secret = made["secret"]
        blocks = [commit(service, entry, chain) for _ in range(4)]
        wait_until(lambda: len(receiver.seen) >= 5, "attempts")
        assert len(set(receiver.seen)) == 1, "what comes later waits for what failed"
        failing = shown(service, "down", made)
        assert failing["problem"]["error"] == "ReceiverRefused"
        assert failing["failures"] >= 4
        is_up.set()
        wait_until(lambda: len(receiver.taken) == 4, "all deliveries")
    assert receiver.blocks() == blocks
    wait_until(lambda: shown(service, "down", made)["failures"] == 0, "the end of failures")


def test_a_receiver_that_is_slow_delays_no_other(tmp_path: Path) -> None:
    receiver = Receiver()
    patient = QUICK | {"outgoing_s": 5.0}
    with (
        serving(tmp_path / "node", **patient) as service,
        socket.create_server(("127.0.0.1", 0)) as silent,
        web_server(receiver) as server,
    ):
        entry, chain = kept(service, "slow")
        slow = hooked(service, "slow", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        receiver.secret = hooked(service, "slow", f"http://127.0.0.1:{server.port}/")["secret"]
        commit(service, entry, chain)
        wait_until(lambda: len(receiver.taken) == 1, "the quick receiver")
        assert shown(service, "slow", slow)["attempts"] == [], "it was waited for"
        wait_until(lambda: shown(service, "slow", slow)["attempts"], "an attempt")
        [attempt, *_] = shown(service, "slow", slow)["attempts"]
        assert attempt["error"] == "ReceiverUnreachable"
        assert 4900 < attempt["tookMs"] < 20_000
        with service.http(service.token()) as http:
            http.delete(f"/slow/webhooks/{slow['id']}")


def test_a_receiver_that_answers_byte_by_byte_is_left_in_time(service: Service) -> None:
    entry, chain = kept(service, "drip")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"y" * 600:
                    try:
                        connection.send(bytes([byte]))
                    except OSError:
                        return
                    time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        made = hooked(service, "drip", f"http://127.0.0.1:{server.getsockname()[1]}/")
        commit(service, entry, chain)
        wait_until(lambda: shown(service, "drip", made)["attempts"], "an attempt")
        attempt = shown(service, "drip", made)["attempts"][-1]
        with service.http(service.token()) as http:
            http.delete(f"/drip/webhooks/{made['id']}")
    assert attempt["error"] == "ReceiverUnreachable"
    assert attempt["tookMs"] < 30_000


def test_a_redirect_is_a_failure_and_is_not_followed(service: Service) -> None:
    entry, chain = kept(service, "moved")
    inside: list[Asked] = []

    def other(asked: Asked) -> Answer:
        inside.append(asked)
        return Answer(204)

    with web_server(other) as trap:
        receiver = Receiver(
            lambda _: Answer(307, {"Location": f"http://127.0.0.1:{trap.port}/inside"})
        )
        with web_server(receiver) as server:
            made = hooked(service, "moved", f"http://127.0.0.1:{server.port}/")
            commit(service, entry, chain)
            wait_until(lambda: len(receiver.seen) >= 2, "two attempts")
            found = shown(service, "moved", made)
    assert inside == []
    assert found["problem"]["error"] == "ReceiverRefused"
    assert found["attempts"][0]["status"] == 307


def test_a_receiver_that_is_gone_ends_its_webhook(service: Service) -> None:
    entry, chain = kept(service, "gone")
    receiver = Receiver(lambda _: Answer(410))
    with web_server(receiver) as server:
        made = hooked(service, "gone", f"http://127.0.0.1:{server.port}/")
        commit(service, entry, chain)
        wait_until(lambda: shown(service, "gone", made)["state"] == "ended", "the end")
        commit(service, entry, chain)
        time.sleep(0.5)
        assert len(receiver.seen) == 1


def test_too_many_failures_pause_a_webhook_and_a_replay_goes_on(service: Service) -> None:
    entry, chain = kept(service, "paused")
    is_up = threading.Event()
    receiver = Receiver(lambda _: Answer(204 if is_up.is_set() else 500))
    with web_server(receiver) as server:
        made = hooked(service, "paused", f"http://127.0.0.1:{server.port}/")
        receiver.secret = made["secret"]
        blocks = [commit(service, entry, chain) for _ in range(3)]
        wait_until(lambda: shown(service, "paused", made)["state"] == "paused", "the pause")
        assert len(receiver.seen) == 61
        is_up.set()
        path = f"/paused/webhooks/{made['id']}/replay"
        with service.http(service.token()) as http:
            assert http.post(path).json()["state"] == "active"
            wait_until(lambda: len(receiver.taken) == 3, "what was missed")
            assert receiver.blocks() == blocks
            receiver.taken.clear()
            http.post(path, params={"since": blocks[0]})
            wait_until(lambda: len(receiver.taken) == 2, "the replay")
    assert receiver.blocks() == blocks[1:]
    assert [each["id"] for each in receiver.taken] == list(dict.fromkeys(receiver.seen))[1:]


def test_another_history_is_told_by_a_reset_with_an_id_of_its_own(service: Service) -> None:
    entry, chain = kept(service, "rewritten")
    receiver = Receiver()
    with web_server(receiver) as server:
        made = hooked(service, "rewritten", f"http://127.0.0.1:{server.port}/")
        receiver.secret = made["secret"]
        before = chain.head
        lost = commit(service, entry, chain)
        wait_until(lambda: len(receiver.taken) == 1, "the block")
        refs = service.node.stores.refs
        refs.move(entry.id, expected=chain.head, new=before)
        wait_until(lambda: len(receiver.taken) == 2, "the reset")
        refs.move(entry.id, expected=before, new=chain.head)
        wait_until(lambda: len(receiver.taken) == 3, "the block again")
    assert receiver.blocks() == [lost, str(before), lost]
    assert receiver.taken[1]["type"] == "org.opendatafabric.history.reset"


def test_a_dataset_that_is_hidden_from_the_account_ends_its_webhook(service: Service) -> None:
    entry, chain = kept(service, "hidden")
    receiver, mine = Receiver(), Receiver()
    with web_server(receiver) as server, web_server(mine) as own:
        theirs = hooked(service, "hidden", f"http://127.0.0.1:{server.port}/", "guest")
        mine.secret = hooked(service, "hidden", f"http://127.0.0.1:{own.port}/")["secret"]
        receiver.secret = theirs["secret"]
        commit(service, entry, chain)
        wait_until(lambda: len(receiver.taken) == 1, "the public block")
        service.node.stores.set_visibility(entry.id, Visibility.PRIVATE)
        commit(service, entry, chain)
        store = service.node.stores.webhooks
        wait_until(
            lambda: getattr(store.find(theirs["id"]), "state", None) is WebhookState.ENDED,
            "the end",
        )
        wait_until(lambda: len(mine.taken) == 2, "the owner's delivery")
    assert len(receiver.seen) == 1
    found = store.find(theirs["id"])
    assert found is not None
    assert found.problem is not None
    assert found.problem.error == "ReadingEnded"


def test_a_reader_by_role_is_told_of_a_private_dataset(service: Service) -> None:
    entry, chain = kept(service, "shared", visibility=Visibility.PRIVATE)
    service.token("friend")
    friend = service.node.stores.accounts.find_account("friend")
    assert friend is not None
    service.node.stores.roles.put(entry.id, friend.id, Role.READER)
    receiver = Receiver()
    with web_server(receiver) as server:
        made = hooked(service, "shared", f"http://127.0.0.1:{server.port}/", "friend")
        receiver.secret = made["secret"]
        block = commit(service, entry, chain)
        wait_until(lambda: receiver.taken, "the block")
    assert receiver.blocks() == [block]


def test_pauses_grow_as_they_are_set_and_end_in_a_pause_of_the_webhook() -> None:
    refused = Outcome(receiver_refused(500), 500, 0.0, 1)
    retry_s = (5.0, 300.0)

    def after(answer: Outcome, failed_before: int, chance: float = 0.0) -> Any:
        return after_failure(
            answer, failed_before=failed_before, retry_s=retry_s, now=NOON, chance=chance
        )

    assert after(refused, 0) == (WebhookState.ACTIVE, Instant(NOON.ns + 5 * NANOS))
    assert after(refused, 1) == (WebhookState.ACTIVE, Instant(NOON.ns + 300 * NANOS))
    assert after(refused, 1, 0.5) == (WebhookState.ACTIVE, Instant(NOON.ns + 315 * NANOS))
    assert after(refused, 2) == (WebhookState.PAUSED, None)
    patient = Outcome(receiver_refused(429), 429, 3600.0, 1)
    assert after(patient, 0) == (WebhookState.ACTIVE, Instant(NOON.ns + 3600 * NANOS))
    too_patient = Outcome(receiver_refused(429), 429, 1e9, 1)
    assert after(too_patient, 0) == (WebhookState.ACTIVE, Instant(NOON.ns + 86_400 * NANOS))
    assert after(Outcome(ReceiverGone(), 410, 0.0, 1), 0) == (WebhookState.ENDED, None)
