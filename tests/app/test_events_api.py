"""Streams of news: each block once and in order, for those who may read it, and as long as."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from refusals import refusing
from service import Chain, Service, described, serving, ten_rows
from starlette.types import Message

from odf_node.service.news import feeds
from odf_node.service.news.streams import EventStream
from odf_protocol.identity import DatasetRef
from odf_storage.stores.ports.values import DatasetEntry, JobSpec, Visibility

PATIENCE_S = 90.0


@dataclass
class Event:
    """One event of a stream."""

    id: str = ""
    kind: str = ""
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Stream:
    """A stream as a client reads it."""

    response: httpx.Response
    lines: Iterator[str]
    comments: int = 0

    def next(self) -> Event | None:
        """The next event; None when the node has ended the stream."""
        event = Event()
        for line in self.lines:
            if line.startswith(":"):
                self.comments += 1
            elif not line:
                assert event.id, "an event without anything in it"
                return event
            else:
                name, _, value = line.partition(": ")
                if name == "data":
                    event.data = json.loads(value)
                elif name == "event":
                    event.kind = value
                elif name == "id":
                    event.id = value
        return None

    def take(self, count: int) -> list[Event]:
        found = [self.next() for _ in range(count)]
        assert None not in found, "the stream ended"
        return [event for event in found if event is not None]


@contextmanager
def following(
    service: Service, path: str, last: str | None = None, token: str | None = None, **query: Any
) -> Iterator[Stream]:
    headers = {"last-event-id": last} if last else {}
    with (
        service.http(token) as http,
        http.stream("GET", path, headers=headers, params=query) as response,
    ):
        assert response.status_code == 200, response.read()
        yield Stream(response, response.iter_lines())


def kept(service: Service, name: str, **more: Any) -> tuple[DatasetEntry, Chain]:
    chain = ten_rows()
    return service.keep(chain, f"kamu/{name}", **more), chain


def commit(service: Service, entry: DatasetEntry, chain: Chain, rows: int = 0) -> str:
    """Add a block; its hash."""
    before = chain.head
    if rows:
        chain.add_rows(rows)
        for (kind, name), content in chain.objects.items():
            from odf_storage.stores.ports.values import ObjectKey

            service.node.stores.objects.put(ObjectKey(chain.id, kind, name), [content])
    else:
        chain.add(described(f"number {len(chain.blocks)}"))
    dataset = service.node.stores.dataset(DatasetRef(id=entry.id))
    dataset.commit([chain.blocks[-1]], expected=before)
    return str(chain.head)


def test_a_listener_is_told_where_it_begins_and_of_each_block_from_there_on(
    single: Service,
) -> None:
    entry, chain = kept(single, "begins")
    with following(single, "/begins/events") as stream:
        first = stream.next()
        assert first is not None
        assert (first.kind, first.id) == ("position", str(chain.head))
        made = [commit(single, entry, chain) for _ in range(3)]
        told = stream.take(3)
    assert [event.id for event in told] == made
    assert [event.data["sequenceNumber"] for event in told] == [4, 5, 6]
    assert {event.kind for event in told} == {"block"}
    assert told[0].data["alias"] == "begins"
    assert told[0].data["event"] == "SetInfo"
    assert stream.response.headers["content-type"].startswith("text/event-stream")
    assert stream.response.headers["cache-control"] == "no-store"


def test_a_client_that_comes_back_gets_what_it_missed_and_nothing_twice(
    single: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, chain = kept(single, "back")
    monkeypatch.setattr(feeds, "BLOCKS_A_PAGE", 7)
    made = [commit(single, entry, chain) for _ in range(20)]
    with following(single, "/back/events", made[0]) as stream:
        assert [event.id for event in stream.take(19)] == made[1:]
    with single.http() as http:
        url = f"/back/events?lastEventId={made[-2]}"
        with http.stream("GET", url) as response:
            assert Stream(response, response.iter_lines()).take(1)[0].id == made[-1]
    with following(single, "/back/events", "beginning") as stream:
        assert [event.id for event in stream.take(3)] == [str(b.hash) for b in chain.blocks[:3]]


def test_rows_come_with_their_block_if_they_are_asked_for_and_not_too_many(
    tmp_path: Any,
) -> None:
    with serving(tmp_path, events_max_rows=5, anonymous_reads="all") as service:
        entry, chain = kept(service, "rows")
        with following(service, "/rows/events", rows=True) as stream:
            stream.next()
            commit(service, entry, chain, rows=3)
            commit(service, entry, chain, rows=6)
            few, many = stream.take(2)
        assert [row["city"] for row in few.data["rows"]] == ["c10", "c11", "c12"]
        assert few.data["offsets"] == {"start": 10, "end": 12}
        assert many.data["offsets"] == {"start": 13, "end": 18}
        assert "rows" not in many.data


def test_a_history_that_was_rewritten_is_told_by_one_reset(single: Service) -> None:
    entry, chain = kept(single, "reset")
    last = commit(single, entry, chain)
    other = Chain(chain.id, chain.blocks[:3], {}, chain.state)
    with following(single, "/reset/events", last) as stream:
        stores = single.node.stores
        head = other.blocks[-1].hash
        stores.refs.move(entry.id, expected=chain.head, new=head)
        (told,) = stream.take(1)
        assert (told.kind, told.id, told.data["block"]) == ("reset", str(head), str(head))


def test_all_datasets_of_the_node_are_followed_in_the_order_of_its_log(
    single: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "BLOCKS_A_PAGE", 3)
    with following(single, "/events") as stream:
        first = stream.next()
        assert first is not None
        assert first.kind == "position"
        one, one_chain = kept(single, "order-one")
        other, other_chain = kept(single, "order-other")
        made = [commit(single, one, one_chain), commit(single, other, other_chain)]
        seen = stream.take(10)
    assert [event.data["block"] for event in seen[-2:]] == made
    assert [event.data["block"] for event in seen[:4]] == [
        str(block.hash) for block in one_chain.blocks[:4]
    ]
    for number in range(len(seen)):  # each id leads to what comes behind it, within a line too
        with following(single, "/events", seen[number].id) as again:
            rest = again.take(len(seen) - number - 1)
        assert [event.id for event in rest] == [event.id for event in seen[number + 1 :]]
    with following(single, "/events", first.id, datasets="order-other") as some:
        told = some.take(5)
    assert {event.data["alias"] for event in told} == {"order-other"}


@pytest.mark.parametrize("last", ["x", "12", "12:zz", "-1", "9" * 30, "é", "f1620" + "0" * 63])
def test_a_position_that_is_none_is_refused(single: Service, last: str) -> None:
    kept(single, f"position-{abs(hash(last))}")
    with single.http() as http:
        for path in ("/events", f"/position-{abs(hash(last))}/events"):
            answer = http.get(path, params={"lastEventId": last})
            assert answer.status_code == 400, path
            assert answer.json()["type"].endswith("InvalidPosition")


def test_strangers_hear_nothing_of_private_datasets(single: Service) -> None:
    entry, chain = kept(single, "secret", visibility=Visibility.PRIVATE)
    shown, shown_chain = kept(single, "shown")
    with single.http() as http:
        assert http.get("/secret/events").status_code == 404
        assert http.get("/events?datasets=secret").status_code == 404
    with (
        following(single, "/events") as strange,
        following(single, "/events", token=single.token()) as own,
    ):
        strange.next(), own.next()
        hidden = commit(single, entry, chain)
        open_ = commit(single, shown, shown_chain)
        assert strange.take(1)[0].data["block"] == open_
        assert [event.data["block"] for event in own.take(2)] == [hidden, open_]


def test_ids_of_the_node_tell_strangers_nothing_of_what_they_may_not_read(single: Service) -> None:
    entry, chain = kept(single, "counted", visibility=Visibility.PRIVATE)
    shown, shown_chain = kept(single, "uncounted")
    begun = []
    for moves in (0, 0, 1):
        for _ in range(moves):
            commit(single, entry, chain)
        with following(single, "/events") as strange:
            first = strange.next()
            assert first is not None
            assert first.data == {}
            begun.append(first.id)
    assert len(set(begun)) == 3  # whether anything happened between them or not
    assert len({len(one) for one in begun}) == 1
    open_ = commit(single, shown, shown_chain)
    for start in begun:  # and a stream goes on from each
        with following(single, "/events", start) as strange:
            assert strange.take(1)[0].data["block"] == open_
    with single.http() as http:
        for place in range(len(begun[0]) - 1):  # the last one has spare bits
            other = "A" if begun[0][place] != "A" else "B"
            changed = begun[0][:place] + other + begun[0][place + 1 :]
            with http.stream("GET", "/events", params={"lastEventId": changed}) as answer:
                assert answer.status_code == 400


def test_a_dataset_that_is_made_private_ends_its_listeners(tmp_path: Any) -> None:
    with serving(tmp_path, events_keep_alive_s=0.2) as service:
        entry, chain = kept(service, "closing")
        token = service.token()
        with (
            following(service, "/closing/events") as strange,
            following(service, "/closing/events", token=token) as own,
        ):
            strange.next(), own.next()
            with service.http(token) as http:
                done = http.put("/closing/visibility", json={"visibility": "private"})
                assert done.status_code < 300, done.text
            commit(service, entry, chain)
            seen = strange.next()
            assert seen is None, "a stranger was told of a private dataset"
            assert own.take(1)[0].data["block"] == str(chain.head)


def test_a_token_that_is_revoked_ends_its_streams(tmp_path: Any) -> None:
    with serving(tmp_path, events_keep_alive_s=0.2) as service:
        kept(service, "revoked", visibility=Visibility.PRIVATE)
        token = service.token()
        with following(service, "/revoked/events", token=token) as stream:
            stream.next()
            accounts = service.node.stores.accounts
            from odf_node.service.auth.actors import AccessToken

            accounts.revoke_token(AccessToken.parse(token).stored_id)
            assert stream.next() is None
        with service.http(token) as http:
            assert http.get("/events").status_code == 401


def test_followers_of_a_job_are_listeners_and_hear_nothing_they_may_not_read(tmp_path: Any) -> None:
    limits = {"events_keep_alive_s": 0.2, "events_listeners": 4, "share": 0.5}
    with serving(tmp_path, **limits) as service:
        entry, _ = kept(service, "worked")
        job = service.node.stores.jobs.submit(JobSpec(kind="verify", dataset=entry.id, payload={}))
        path = f"/jobs/{job}/events"
        with (
            service.http() as http,
            service.http(service.token()) as own,
            http.stream("GET", path) as one,
            http.stream("GET", path) as other,
            own.stream("GET", path) as kept_on,
        ):
            with http.stream("GET", path) as refused:  # one that is not refused has no end
                assert refused.status_code == 429
            lines, own_lines = one.iter_lines(), kept_on.iter_lines()
            assert next(lines) == next(own_lines) == "event: job"
            own.put("/worked/visibility", json={"visibility": "private"})
            assert "event: ended" not in list(lines)
            assert "event: ended" not in list(other.iter_lines())
            own.delete(f"/jobs/{job}")
            assert "event: ended" in list(own_lines)


def test_a_forgotten_dataset_ends_its_listeners(tmp_path: Any) -> None:
    with serving(tmp_path, events_keep_alive_s=0.2) as service:
        entry, _ = kept(service, "forgotten")
        with following(service, "/forgotten/events") as stream:
            stream.next()
            service.node.stores.forget_dataset(entry.id)
            assert stream.next() is None


def test_silence_is_filled_with_comments_that_no_client_takes_for_events(tmp_path: Any) -> None:
    with serving(tmp_path, events_keep_alive_s=0.1) as service:
        entry, chain = kept(service, "silence")
        with following(service, "/silence/events") as stream:
            stream.next()

            def commit_when_three_were_seen() -> None:
                deadline = time.monotonic() + PATIENCE_S
                while stream.comments < 3 and time.monotonic() < deadline:
                    time.sleep(0.02)
                commit(service, entry, chain)

            threading.Thread(target=commit_when_three_were_seen).start()
            assert stream.take(1)[0].id
            assert stream.comments >= 3


def test_listeners_are_limited_by_caller_and_by_node(tmp_path: Any) -> None:
    with serving(tmp_path, events_listeners=3, share=0.5) as service:
        kept(service, "limited")
        token = service.token()
        with (
            following(service, "/limited/events"),
            following(service, "/events"),
            service.http() as http,
        ):
            refused = http.get("/limited/events")
            assert refused.status_code == 429
            assert refused.json()["setting"] == "ODF_NODE_SHARE"
            with following(service, "/limited/events", token=token), service.http(token) as own:
                assert own.get("/limited/events").status_code == 503
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:  # slots come back when clients go
            with service.http() as http, http.stream("GET", "/limited/events") as again:
                if again.status_code == 200:
                    break
            time.sleep(0.05)
        else:
            raise AssertionError("slots were not given back")


def test_a_question_for_the_headers_alone_has_an_end(single: Service) -> None:
    kept(single, "headers")
    with single.http() as http:
        answer = http.head("/headers/events")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_listener_that_takes_nothing_is_left_and_its_slot_given_back() -> None:
    given_back: list[bool] = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x"

    async def receive() -> Message:
        return await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":  # the buffers of the connection are full
            await asyncio.Future()

    stream = EventStream(endless(), 0.05, lambda: given_back.append(True))
    scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
    with refusing("ListenerTooSlow"):
        asyncio.run(stream(scope, receive, send))
    assert given_back == [True]


def test_a_node_that_ends_waits_for_no_listener(tmp_path: Any) -> None:
    with serving(tmp_path, shutdown_s=60) as service:
        kept(service, "ending")
        stop = following(service, "/ending/events")
        stream = stop.__enter__()
        stream.next()
        began = time.monotonic()
    assert time.monotonic() - began < 50
    assert stream.next() is None
    stop.__exit__(None, None, None)
