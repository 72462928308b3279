"""A Kartothek dataset that grows and changes, as its polls make blocks of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from backends import fresh_place
from buckets import log_in
from kartothek_vectors import KARTOTHEK, in_any_order
from static_files import static_files
from tests.workers.kartothek.polled import Polled, ledger, snapshot, state_of, upsert

from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import EventTimeSourceFromSystemTime
from odf_storage.stores.keyed.folder import open_keyed_store

EXPECTED = json.loads((KARTOTHEK / "expected" / "inventory-steps.json").read_text())
EVENTS = {
    "snapshot": EXPECTED["snapshot_merge"]["events"],
    "ledger": EXPECTED["ledger_merge"]["events"],
}
MERGES = {"snapshot": snapshot, "ledger": ledger, "upsert": upsert}
Step = Callable[[int], None]


@contextmanager
def in_folder(tmp_path: Path, _: Any, __: Any) -> Iterator[tuple[str, Step, dict[str, Any]]]:
    folder = tmp_path / "store"
    yield f"kartothek+{folder.as_uri()}/inventory", lambda step: put(folder, step), {}


@contextmanager
def behind_http(tmp_path: Path, _: Any, __: Any) -> Iterator[tuple[str, Step, dict[str, Any]]]:
    folder = tmp_path / "store"
    with static_files(tmp_path) as served:
        yield f"kartothek+{served.url}store/inventory", lambda step: put(folder, step), {}


@contextmanager
def in_bucket(
    _: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Step, dict[str, Any]]]:
    log_in(monkeypatch, request.getfixturevalue("s3"))
    place = fresh_place(request)
    store = open_keyed_store(place)

    def step(number: int) -> None:
        folder = KARTOTHEK / "steps" / str(number)
        store.delete([info.key for info in store.list("inventory")])
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                store.put(path.relative_to(folder).as_posix(), [path.read_bytes()])

    yield f"kartothek+{place}/inventory", step, {"buckets": (place,)}


PLACES = {"folder": in_folder, "http": behind_http, "bucket": in_bucket}


def put(folder: Path, step: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(KARTOTHEK / "steps" / str(step), folder)


@pytest.mark.parametrize("merge", ["snapshot", "ledger"])
@pytest.mark.parametrize("place", PLACES)
def test_each_step_gives_the_events_that_its_strategy_asks_for(
    tmp_path, request, monkeypatch, place, merge
):
    with PLACES[place](tmp_path, request, monkeypatch) as (url, step, rules):
        polled = Polled(tmp_path, url, MERGES[merge]("item_id"), **rules)
        follow(polled, step, EVENTS[merge])


@pytest.mark.spark
@pytest.mark.parametrize("merge", ["snapshot", "ledger"])
def test_on_spark_each_step_gives_the_same_events(tmp_path, spark, merge):
    with in_folder(tmp_path, None, None) as (url, step, _):
        polled = Polled(tmp_path, url, MERGES[merge]("item_id"), spark=spark)
        follow(polled, step, EVENTS[merge])


def follow(polled: Polled, step: Step, events: dict[str, Any]) -> None:
    """Poll after each step."""
    count = 0
    for number, wanted in events.items():
        step(int(number))
        before = polled.blocks
        receipt = polled()
        found = polled.added(count)
        if isinstance(wanted, str):
            assert (receipt.outcome, polled.blocks) == ("up-to-date", before)
            wanted = []
        assert in_any_order(found) == in_any_order(wanted)
        for row, following in pairwise(found):
            if row["op"] == 2:
                assert (following["op"], following["item_id"]) == (3, row["item_id"])
        count += len(found)
        again = polled()
        assert again.outcome == "up-to-date"


def test_an_upsert_stream_follows_new_rows_and_retracts_nothing(tmp_path):
    with in_folder(tmp_path, None, None) as (url, step, _):
        polled = Polled(tmp_path, url, upsert("item_id"))
        for number in range(1, 5):
            step(number)
            polled()
        rows = [*EXPECTED["states"]["4"], EXPECTED["states"]["1"][1]]
        assert in_any_order(state_of(polled)) == in_any_order(rows)


def test_a_ledger_reads_only_files_that_it_did_not_read_before(tmp_path):
    with behind_http(tmp_path, None, None) as (url, step, _):
        polled = Polled(tmp_path, url, ledger("item_id"))
        read = []
        for number in (1, 2, 3, 4):
            step(number)
            read.append(polled().rows_read)
        assert read == [3, 2, 0, 2]
        shutil.rmtree(polled.context.polls.fetch.lists.folder)
        step(2)
        assert polled().rows_read == 5


def test_a_list_that_is_damaged_is_not_believed(tmp_path):
    with in_folder(tmp_path, None, None) as (url, step, _):
        polled = Polled(tmp_path, url, ledger("item_id"))
        step(1)
        polled()
        (listed,) = (tmp_path / "lists").iterdir()
        listed.write_text(listed.read_text().replace("north", "south"))
        step(2)
        assert polled().rows_read == 5


def test_event_times_are_those_of_the_state_file_or_of_the_poll(tmp_path):
    with in_folder(tmp_path, None, None) as (url, step, _):
        step(1)
        file = tmp_path / "store" / "inventory.by-dataset-metadata.json"
        modified = Instant(file.stat().st_mtime_ns).floor_millis()
        by_file = Polled(tmp_path, url, snapshot("item_id"))
        by_file()
        by_clock = Polled(
            tmp_path,
            url,
            snapshot("item_id"),
            fetch={"event_time": EventTimeSourceFromSystemTime()},
        )
        by_clock()
    for polled, wanted in ((by_file, modified), (by_clock, by_clock.dataset.state().system_time)):
        times = set(polled.table()["event_time"].to_pylist())
        assert times == {wanted.floor_millis().to_datetime()}
