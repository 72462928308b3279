"""The client follows a node over broken connections; `odf-node watch` prints what it sees."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import httpx
import pytest
from click.testing import CliRunner
from refusals import refusing
from service import Service, described, ten_rows

from odf_node.cli.main import main
from odf_node.client.nodes.http import DatasetMissing
from odf_node.client.uses import events
from odf_node.client.uses.events import follow
from odf_protocol.identity import DatasetRef


def _commit(service: Service, chain) -> str:
    before = chain.head
    chain.add(described(f"number {len(chain.blocks)}"))
    dataset = service.node.stores.dataset(DatasetRef(id=chain.id))
    dataset.commit([chain.blocks[-1]], expected=before)
    return str(chain.head)


class _Whole(httpx.SyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


class _Cut(_Whole):
    def __iter__(self) -> Iterator[bytes]:
        yield from super().__iter__()
        raise httpx.ReadError("the connection broke")


def _event(number: int) -> bytes:
    return b'retry: 1000\nid: %d\nevent: block\ndata: {"n":%d}\n\n: keep\n' % (number, number)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "FIRST_PAUSE_S", 0.0)


def test_the_client_goes_on_behind_the_last_whole_event(no_pauses: None) -> None:
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        last = request.headers.get("last-event-id")
        asked.append(last)
        if len(asked) == 2:
            return httpx.Response(503)
        first = int(last or 0) + 1
        whole = _event(first)
        pieces = (whole[:7], whole[7:], b"id: 99\nevent: block\ndata: {")  # broken in the middle
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=_Cut(*pieces))

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        stream = follow(http, "http://node/x/events")
        assert [next(stream).data["n"] for _ in range(3)] == [1, 2, 3]
    assert asked == [None, "1", "1", "2"]


@pytest.mark.parametrize("data", [b"no json", b"[]"])
def test_data_that_are_no_object_are_refused(data: bytes) -> None:
    content = _Whole(b"id: 1\nevent: block\ndata: " + data + b"\n\n")
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=content))
    with httpx.Client(transport=transport) as http, refusing("MalformedEvent"):
        next(follow(http, "http://node/x/events"))


def test_a_dataset_that_is_not_there_is_not_waited_for(single: Service) -> None:
    with httpx.Client() as http, pytest.raises(DatasetMissing):
        next(follow(http, f"{single.url}/nowhere/events"))


def test_watch_prints_blocks_as_they_come(single: Service) -> None:
    chain = ten_rows()
    single.keep(chain, "kamu/watched")
    timer = threading.Timer(1.0, _commit, (single, chain))
    timer.start()
    words = ["watch", f"{single.url}/watched", "--count", "1", "--json"]
    done = CliRunner().invoke(main, words)
    timer.join()
    first, block = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["event"], block["event"]) == ("position", "block")
    assert (block["id"], block["metadataEvent"]) == (str(chain.head), "SetInfo")
    words = ["watch", f"{single.url}/watched", "--count", "4", "--since", "beginning"]
    done = CliRunner().invoke(main, words)
    assert len(done.stdout.splitlines()) == 4
    assert "watched #3 AddData, offsets 0 to 9" in done.stdout
