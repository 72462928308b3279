"""Readers, writers and kills beside publications, in a folder and on a real S3 server."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from types import SimpleNamespace

import pytest
from backends import fresh_place
from buckets import log_in
from fault_proxy import fault_proxy
from kartothek_published import A2, A, Growing, Killed, Publisher, R, Watched, by_city
from publishing import in_process, run_job

from odf_protocol.errors import Unavailable
from odf_storage.datasets.job_payloads import publish_job
from odf_storage.datasets.job_payloads.publish_job import PublishPayload
from odf_storage.datasets.kartothek.definition import Mode
from odf_storage.datasets.kartothek.own_index import own_index
from odf_storage.datasets.kartothek.publish import withdraw
from odf_storage.datasets.kartothek.rows import whole_table
from odf_storage.datasets.kartothek.select import open_table
from odf_storage.stores.keyed.folder import FolderKeyedStore, open_keyed_store
from odf_storage.stores.ports.errors import SwapLost
from odf_storage.stores.ports.publications import PublishedDataset

REFRESHES = 30


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path, monkeypatch):
    if request.param == "folder":
        return open_keyed_store((tmp_path / "shop").as_uri(), durable=False)
    log_in(monkeypatch, request.getfixturevalue("s3"))
    return open_keyed_store(fresh_place(request))


@pytest.mark.parametrize("mode", [Mode.CHANGELOG, Mode.STATE])
def test_a_reader_sees_a_whole_table_of_some_head_and_never_an_older_one(
    made: Growing, place, tmp_path, mode
):
    refresh = Publisher(made, place, tmp_path, mode=mode, secondary_indices=("city",))
    made.add([(A, "0", 0)])
    refresh()
    rows_at = {made.head: [(0, A, "0", 0)]}
    seen, stop = [], Event()

    def read() -> None:
        while not stop.is_set():
            table = open_table(place, "u")
            rows = by_city(whole_table(table).to_pylist())
            seen.append((table.found.state.metadata["odf.head"], rows))

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        for number in range(1, REFRESHES + 1):
            gone = [(R, str(number - 1), number - 1)] if number % 3 == 0 else []
            made.add([*gone, (A, str(number), number)])
            rows_at[made.head] = None
            refresh()
            rows_at[made.head] = by_city(whole_table(open_table(place, "u")).to_pylist())
        stop.set()
        reader.result(60)
    heads = list(rows_at)
    order = [heads.index(head) for head, _ in seen]
    assert order == sorted(order)
    assert len(set(order)) > 3
    assert all(rows == rows_at[head] for head, rows in seen)


def test_of_sixteen_refreshes_at_once_none_leaves_the_table_behind(made: Growing, place, tmp_path):
    refresh = Publisher(made, place, tmp_path, secondary_indices=("city",))
    for block in A2:
        made.add(block)

    def once(_: int) -> str:
        for _ in range(40):
            try:
                return refresh().head
            except SwapLost:
                continue
        raise AssertionError("lost forty times")

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(once, range(16))) == {made.head}
    assert [row[0] for row in by_city(whole_table(open_table(place, "u")).to_pylist())] == [
        *range(7)
    ]
    made.add([(A, "z", 1)])
    refresh()
    assert len(by_city(whole_table(open_table(place, "u")).to_pylist())) == 8


class Overtaken(Watched):
    """Another run of ours publishes between the look at the record and the look at the state."""

    def __init__(self, store, other) -> None:
        super().__init__(store)
        self._others = [other]

    def read(self, key, *, most):
        if self._others:
            self._others.pop()()
        return self._store.read(key, most=most)


def test_a_withdrawal_that_is_overtaken_takes_nothing_for_a_strangers(
    made: Growing, place, tmp_path
):
    refresh = Publisher(made, place, tmp_path)
    made.add(A2[0])
    refresh()
    made.add(A2[1])
    with pytest.raises(SwapLost):
        withdraw(Overtaken(place, refresh), refresh.config, refresh.records)
    assert len(whole_table(open_table(place, "u"))) == 6
    withdraw(place, refresh.config, refresh.records)
    assert list(place.list("u")) == []


def test_a_withdrawal_job_that_is_overtaken_goes_on(made: Growing, place, tmp_path, monkeypatch):
    from odf_workers.jobs.reading import publish as job_run

    url = (tmp_path / "shop").as_uri()
    made.stores.publications.put(
        PublishedDataset(
            dataset=made.entry.id, uuid="u", store=url, definition={"uuid": "u", "store": url}
        )
    )

    def run(store, payload: PublishPayload) -> str:
        monkeypatch.setattr(job_run, "allowed_store", lambda *_, **__: store)
        job = SimpleNamespace(spec=publish_job.spec_of(made.entry.id, payload))
        return run_job(made.stores, job, in_process()).result["outcome"]

    made.add(A2[0])
    assert run(place, PublishPayload()) == "published"
    made.add(A2[1])
    overtaken = Overtaken(place, lambda: run(place, PublishPayload()))
    assert run(overtaken, PublishPayload(withdraw=True)) == "withdrawn"
    assert list(place.list("u")) == []
    assert made.stores.publications.find(made.entry.id) is None


@pytest.mark.parametrize("mode", ["changelog", "state"])
def test_a_job_that_is_killed_at_any_write_is_repeated_and_leaves_nothing(
    made: Growing, place, tmp_path, mode, monkeypatch
):
    from odf_workers.jobs.reading import publish as job_run

    definition = {"uuid": "u", "mode": mode, "secondaryIndices": ["city"], "grace": "0s",
                  "store": (tmp_path / "shop").as_uri()}  # fmt: skip
    made.stores.publications.put(
        PublishedDataset(
            dataset=made.entry.id, uuid="u", store=definition["store"], definition=definition
        )
    )
    shop = place
    context = in_process(publish_to=(definition["store"],))
    job = SimpleNamespace(spec=publish_job.spec_of(made.entry.id, PublishPayload()))
    dying: dict[str, Watched] = {}
    monkeypatch.setattr(job_run, "allowed_store", lambda *_, **__: dying.get("store", shop))
    run_job(made.stores, job, context)
    for number, block in enumerate([*A2, [(A, "y", 1)], [(R, "y", 1), (A, "z", 2)]]):
        before = by_city(whole_table(open_table(shop, "u")).to_pylist())
        made.add(block)
        kills = 0
        while True:
            dying["store"] = Watched(shop, dies_at=kills)
            try:
                run_job(made.stores, job, context)
                break
            except Killed:
                kills += 1
                now = by_city(whole_table(open_table(shop, "u")).to_pylist())
                assert now in (before, _expected(made, mode)), (number, kills)
        assert kills >= 3
        assert by_city(whole_table(open_table(shop, "u")).to_pylist()) == _expected(made, mode)
    dying.clear()
    run_job(made.stores, job, context)
    named = open_table(shop, "u")
    wanted = {each.key for each in named.partitions} | set(named.found.state.indices.values())
    assert {info.key for info in shop.list("u")} == wanted | {"u/table/_common_metadata"}


@pytest.mark.parametrize("mode", ["changelog", "state"])
def test_a_job_that_is_killed_at_any_write_of_the_nodes_own_store_is_repeated(
    made: Growing, place, tmp_path, mode, monkeypatch
):
    from odf_workers.jobs.reading import publish as job_run

    definition = {"uuid": "u", "mode": mode, "secondaryIndices": ["city"], "grace": "0s",
                  "store": (tmp_path / "shop").as_uri()}  # fmt: skip
    made.stores.publications.put(
        PublishedDataset(
            dataset=made.entry.id, uuid="u", store=definition["store"], definition=definition
        )
    )
    context = in_process(publish_to=(definition["store"],))
    job = SimpleNamespace(spec=publish_job.spec_of(made.entry.id, PublishPayload()))
    monkeypatch.setattr(job_run, "allowed_store", lambda *_, **__: place)
    for block in A2:
        made.add(block)
        kills = 0
        while True:
            own = Watched(made.stores.projections, dies_at=kills)
            try:
                run_job(replace(made.stores, projections=own), job, context)
                break
            except Killed:
                kills += 1
        assert kills >= 4
        assert by_city(whole_table(open_table(place, "u")).to_pylist()) == _expected(made, mode)
        index = own_index(made.stores.projections, made.entry.id)
        assert index is not None
        assert str(index.head) == made.head


def _expected(made: Growing, mode: str) -> list[tuple]:
    every, live = [], []
    for part in made.parts:
        import pyarrow.parquet as pq

        for row in pq.read_table(made.slice_path(part)).to_pylist():
            found = (row["offset"], row["op"], row["city"], row["pop"])
            every.append(found)
            if row["op"] in (0, 3):
                live.append(found)
            else:
                match = [one for one in live if one[2:] == found[2:]]
                live.remove(max(match))
    return sorted(every if mode == "changelog" else live)


@pytest.mark.parametrize("mode", [Mode.CHANGELOG, Mode.STATE])
@pytest.mark.parametrize("after", [2, 4, 6])
def test_a_bucket_that_refuses_half_way_leaves_the_former_state(
    made: Growing, tmp_path, monkeypatch, request, mode, after
):
    log_in(monkeypatch, request.getfixturevalue("s3"))
    location = fresh_place(request)
    direct = open_keyed_store(location)
    upstream = re.search(r"https?://[^/]+", location).group()
    with fault_proxy(upstream) as proxy:
        behind = open_keyed_store(location.replace(upstream, proxy.url))
        refresh = Publisher(made, behind, tmp_path, mode=mode, secondary_indices=("city",))
        made.add(A2[0])
        refresh()
        before = by_city(whole_table(open_table(direct, "u")).to_pylist())
        made.add(A2[1])
        proxy.then(*["pass"] * after, *["busy"] * 1000)
        with pytest.raises(Unavailable) as refused:
            refresh()
        assert "SlowDown" in refused.value.message
        assert by_city(whole_table(open_table(direct, "u")).to_pylist()) == before
        proxy.clear()
        refresh()
    again = Publisher(made, FolderKeyedStore(tmp_path / "other"), tmp_path / "r", mode=mode)
    again()
    wanted = by_city(whole_table(open_table(again.store, "u")).to_pylist())
    assert by_city(whole_table(open_table(direct, "u")).to_pylist()) == wanted
