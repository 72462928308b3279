"""`Dataset.follow`: changes as they come, each row once, whatever becomes of connections."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from cut_relay import CutRelay, cut_relay
from refusals import refusing
from servers import free_port, wait_until
from service import Service, described, seeded, serving, ten_rows

import odf_node
from odf_node.client.nodes.http import Unreachable
from odf_node.public import following
from odf_protocol.errors import NotFound


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAUSE_S", 0.05)
    monkeypatch.setattr(following, "POLL_S", 0.05)


def _offsets(changes: odf_node.Changes) -> list[int]:
    return changes.rows.column("offset").to_pylist()


def test_what_is_there_comes_first_and_what_is_new_then(single: Service) -> None:
    chain = ten_rows()
    single.keep(chain, "kamu/new")
    with odf_node.open(f"{single.url}/new").follow(since=4, timeout=90) as news:
        assert _offsets(next(news)) == [4, 5, 6, 7, 8, 9]
        single.extend(chain, 3)
        found = next(news)
        assert _offsets(found) == [10, 11, 12]
        assert str(found.position) == f"13@{chain.head}" == str(news.position)


def test_rows_come_in_pieces_of_the_size_that_was_asked_for(single: Service) -> None:
    single.keep(ten_rows(), "kamu/pieces")
    data = odf_node.open(f"{single.url}/pieces")
    pieces = [_offsets(each) for each in data.follow(limit=4, timeout=0)]
    assert pieces == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    pieces = [_offsets(each) for each in data.follow(limit=5, timeout=0.5)]
    assert pieces == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_a_hundred_blocks_over_cut_connections_and_a_restart_come_once_each(
    tmp_path: Path,
) -> None:
    chain, port, seen = ten_rows(), free_port(), []

    def listen(relay: CutRelay, ready: threading.Event) -> None:
        with odf_node.open(f"{relay.url}/cut").follow() as news:
            for changes in news:
                ready.set()
                seen.extend(_offsets(changes))
                if seen[-1] >= 109:
                    return

    def extend(service: Service, relay: CutRelay, blocks: int) -> None:
        for number in range(blocks):
            service.extend(chain, 1)
            if number % 5 == 2:
                wait_until(relay.cut, "a connection to cut")

    with cut_relay(port) as relay:
        with serving(tmp_path / "node", port=port) as service:
            service.keep(chain, "kamu/cut")
            ready = threading.Event()
            listener = threading.Thread(target=listen, args=(relay, ready))
            listener.start()
            assert ready.wait(90)
            extend(service, relay, 50)
        with serving(tmp_path / "node", port=port) as service:
            extend(service, relay, 50)
            listener.join(90)
        assert not listener.is_alive()
    assert seen == list(range(110))


def test_a_stop_ends_also_what_is_there_already(single: Service) -> None:
    single.keep(ten_rows(), "kamu/enough")
    news = odf_node.open(f"{single.url}/enough").follow(limit=2)
    assert _offsets(next(news)) == [0, 1]
    news.stop()
    assert list(news) == []


def test_silence_ends_the_iteration_after_the_time_out(single: Service) -> None:
    single.keep(seeded(), "kamu/silent")
    assert list(odf_node.open(f"{single.url}/silent").follow(timeout=0.2)) == []


@pytest.mark.parametrize("how", ["node", "folder"])
def test_another_thread_ends_the_iteration(single: Service, tmp_path: Path, how: str) -> None:
    name = f"stopped-{how}"
    single.keep(ten_rows(), f"kamu/{name}")
    where: Any = f"{single.url}/{name}"
    if how == "folder":
        odf_node.pull(where, tmp_path / "copy")
        where = tmp_path / "copy"
    news = odf_node.open(where).follow(poll=3600 if how == "folder" else None)
    next(news)
    timer = threading.Timer(0.3, news.stop)
    timer.start()
    assert list(news) == []
    timer.join()
    assert list(news) == []


@pytest.mark.parametrize("how", ["folder", "verified", "polled"])
def test_folders_and_files_are_followed_by_looking_at_the_head(
    single: Service, tmp_path: Path, how: str
) -> None:
    chain, url, copy = ten_rows(), f"{single.url}/looked-{how}", tmp_path / "copy"
    single.keep(chain, f"kamu/looked-{how}")
    odf_node.pull(url, copy)
    data = odf_node.open(copy) if how == "folder" else odf_node.open(url, verify=how == "verified")
    with data.follow(poll=0.05 if how == "polled" else None, timeout=90) as news:
        assert len(_offsets(next(news))) == 10
        single.extend(chain, 2)
        odf_node.pull(url, copy)
        assert _offsets(next(news)) == [10, 11]


def test_a_history_that_was_replaced_ends_it_with_an_error_that_names_the_block(
    single: Service,
) -> None:
    chain = ten_rows()
    entry = single.keep(chain, "kamu/replaced")
    with odf_node.open(f"{single.url}/replaced").follow(timeout=90) as news:
        next(news)
        single.node.stores.refs.move(entry.id, expected=chain.head, new=chain.blocks[2].hash)
        with refusing("HistoryReplaced", match=str(chain.head)):
            next(news)


def test_a_node_that_stays_away_is_an_error_when_the_patience_ends() -> None:
    with cut_relay(free_port()) as relay, pytest.raises(Unreachable):
        next(odf_node.open(f"{relay.url}/x").follow(timeout=0.3))


def test_what_cannot_be_followed_is_said(single: Service) -> None:
    chain = ten_rows().add(described("more"))
    single.keep(chain, "kamu/pinned")
    with pytest.raises(NotFound):
        next(odf_node.open(f"{single.url}/nowhere").follow())
    with refusing("NothingToFollow"):
        odf_node.open(f"{single.url}/pinned", at=str(chain.head)).follow()
    for wrong in ({"limit": 0}, {"poll": 0}, {"timeout": -1}):
        with refusing("ImpossiblePace"):
            odf_node.open(f"{single.url}/pinned").follow(**wrong)


def test_changes_over_random_cuts_are_the_whole(single: Service) -> None:
    chain, rng = ten_rows(), random.Random(3)
    for _ in range(20):
        chain.add_rows(rng.randrange(1, 9))
    single.keep(chain, "kamu/parts")
    data, position, found = odf_node.open(f"{single.url}/parts"), odf_node.Position(), []
    while (changes := data.changes(position, limit=rng.randrange(1, 12))).rows.num_rows:
        position = odf_node.Position.of(str(changes.position))
        found += _offsets(changes)
    assert found == list(range(chain.state.next_offset))
