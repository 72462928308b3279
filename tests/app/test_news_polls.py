"""Waiting for a head by a long poll, and feeds for feed readers."""

from __future__ import annotations

import threading
import time
from xml.etree import ElementTree as Xml

from service import Service, described, serving, ten_rows

from odf_protocol.identity import DatasetRef
from odf_storage.stores.ports.values import Visibility

ATOM = "{http://www.w3.org/2005/Atom}"


def _commit(service: Service, chain) -> str:
    before = chain.head
    chain.add(described(f"number {len(chain.blocks)} <&> \x07"))
    dataset = service.node.stores.dataset(DatasetRef(id=chain.id))
    dataset.commit([chain.blocks[-1]], expected=before)
    return str(chain.head)


def test_a_poll_ends_when_the_head_moves(single: Service) -> None:
    chain = ten_rows()
    single.keep(chain, "kamu/polled")
    with single.http() as http:
        etag = http.get("/polled/refs/head").headers["etag"]
        threading.Timer(0.5, _commit, (single, chain)).start()
        began = time.monotonic()
        answer = http.get("/polled/refs/head", headers={"if-none-match": etag, "prefer": "wait=60"})
        assert time.monotonic() - began < 50
    assert (answer.status_code, answer.text) == (200, str(chain.head))
    assert answer.headers["preference-applied"] == "wait=60"
    assert answer.headers["etag"] == f'"{chain.head}"'


def test_a_poll_for_what_is_the_head_still_ends_with_304(single: Service) -> None:
    chain = ten_rows()
    single.keep(chain, "kamu/still")
    known = {"if-none-match": f'"{chain.head}"'}
    with single.http() as http:
        assert http.get("/still/refs/head", headers=known).status_code == 304
        began = time.monotonic()
        answer = http.get("/still/refs/head", headers={**known, "prefer": "wait=1"})
        assert answer.status_code == 304
        assert answer.content == b""
        assert 0.9 < time.monotonic() - began < 50
        other = {"if-none-match": f'"{chain.blocks[0].hash}"', "prefer": "wait=60"}
        assert http.get("/still/refs/head", headers=other).text == str(chain.head)


def test_polls_take_the_slots_of_listeners(tmp_path) -> None:
    with serving(tmp_path, events_listeners=2, share=0.5, events_max_wait_s=1) as service:
        chain = ten_rows()
        service.keep(chain, "kamu/busy")
        waits = {"if-none-match": f'"{chain.head}"', "prefer": "wait=50"}
        with service.http() as http, http.stream("GET", "/busy/events"):
            assert http.get("/busy/refs/head", headers=waits).status_code == 429
            assert http.get("/busy/refs/head").status_code == 200


def test_a_feed_shows_each_block_once_over_its_pages(single: Service) -> None:
    chain = ten_rows()
    for number in range(60):
        chain.add(described(f"number {number} <&> \x07"))
    single.keep(chain, "kamu/fed")
    seen, url = [], "/fed/events/atom"
    with single.http() as http:
        while url:
            answer = http.get(url)
            assert answer.headers["content-type"].startswith("application/atom+xml")
            page = Xml.fromstring(answer.content)
            assert page.findtext(f"{ATOM}title") == "fed"
            seen += [each.findtext(f"{ATOM}id") for each in page.findall(f"{ATOM}entry")]
            following = page.find(f"{ATOM}link[@rel='next']")
            url = "" if following is None else following.get("href", "")
        first = http.get("/fed/events/atom")
        known = {"if-none-match": first.headers["etag"]}
        assert http.get("/fed/events/atom", headers=known).status_code == 304
        assert http.get("/fed/events/atom?before=f162000").status_code == 400
        absent = "f1620" + "00" * 32
        assert http.get(f"/fed/events/atom?before={absent}").status_code == 404
    assert seen == [f"urn:odf:{block.hash}" for block in reversed(chain.blocks)]
    entry = Xml.fromstring(first.content).find(f"{ATOM}entry")
    assert entry is not None
    assert "<&>" in (entry.findtext(f"{ATOM}title") or "")


def test_a_link_of_a_feed_reads_the_rows_of_its_block(single: Service) -> None:
    chain = ten_rows()
    chain.add_rows(3)
    single.keep(chain, "kamu/linked")
    with single.http() as http:
        page = Xml.fromstring(http.get("/linked/events/atom").content)
        link = page.find(f"{ATOM}entry/{ATOM}link[@title='rows']")
        assert link is not None
        rows = http.get(link.get("href", "")).text.splitlines()
    assert len(rows) == 3


def test_the_feed_of_the_node_shows_what_one_may_read(tmp_path) -> None:
    with serving(tmp_path) as service:
        open_, hidden = ten_rows(), ten_rows()
        service.keep(open_, "kamu/open")
        service.keep(hidden, "kamu/hidden", Visibility.PRIVATE)
        last = _commit(service, open_)
        with service.http() as http, service.http(service.token()) as own:
            strange = Xml.fromstring(http.get("/events/atom").content)
            known = Xml.fromstring(own.get("/events/atom").content)
        titles = [each.findtext(f"{ATOM}title") or "" for each in strange.iter(f"{ATOM}entry")]
        assert len(titles) == 2
        assert all(title.startswith("open: ") for title in titles)
        assert strange.findtext(f"{ATOM}entry/{ATOM}id") == f"urn:odf:{last}"
        assert len(list(known.iter(f"{ATOM}entry"))) == 3
