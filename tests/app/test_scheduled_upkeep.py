"""Upkeep by itself: garbage goes, damage is found, by one service at a time, and pages tell."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from service import serving
from upkeep_parts import grown, key_of

from odf_node.service.processes.follower import Stopping
from odf_node.service.system import chores as upkeep
from odf_node.service.system.chores import FIRST_S, Chore, ChoreRunner, UpkeepSettings, chores_of
from odf_node.service.system.recurring import RETRY_S
from odf_protocol.errors import BadInput, Unavailable
from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.turns import HELD_S, MOST_PROBLEM_CHARS, RENEW_S, ChoreTurns
from odf_storage.runtime.clock import system_clock
from odf_storage.runtime.environment import read_settings
from odf_storage.stores.ports.accounts import AuditFilter
from odf_storage.stores.ports.values import JobStatus, ObjectKind, Succeeded

EVERY_S = 7200.0
LEASE = timedelta(seconds=60)


class Moving:
    """A clock that tests set forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> Instant:
        return Instant(system_clock().ns + int(self.ahead_s * NANOS))


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=tmp_path / "data", durable=False))
    yield opened
    opened.close()


@pytest.fixture
def clock() -> Moving:
    return Moving()


def runner(
    stores: Stores, clock: Moving, work: Callable[..., dict[str, int]], holder: str = "one"
) -> ChoreRunner:
    made = ChoreRunner(stores, Chore("gc", EVERY_S, work), clock, holder)
    clock.ahead_s += FIRST_S + 1
    return made


def outcomes(stores: Stores) -> list[str]:
    return [one.outcome for one in reversed(stores.audit.page(AuditFilter(action="gc")))]


def test_a_chore_is_done_once_in_each_interval_also_over_restarts(
    stores: Stores, clock: Moving
) -> None:
    done: list[int] = []

    def work(*_: Any) -> dict[str, int]:
        done.append(1)
        return {"removed": 3}

    its = runner(stores, clock, work)
    assert its.look() == EVERY_S  # the first is one interval after the node began
    clock.ahead_s += EVERY_S + 1
    for _ in range(3):
        again = runner(stores, clock, work)
        assert again.look() <= EVERY_S
    assert len(done) == 1
    clock.ahead_s += EVERY_S + 1
    runner(stores, clock, work).look()
    assert len(done) == 2
    assert outcomes(stores) == ["done", "done"]
    last = ChoreTurns(stores.projections, "gc", "x", clock).last()
    assert last is not None
    assert (last.found, last.problem, last.holder) == ({"removed": 3}, None, None)


def test_one_service_has_the_turn_and_another_gets_it_when_that_one_is_gone(
    stores: Stores, clock: Moving
) -> None:
    one, other = (ChoreTurns(stores.projections, "gc", name, clock) for name in ("one", "other"))
    assert one.take(EVERY_S) == EVERY_S
    clock.ahead_s += EVERY_S + 1
    assert one.take(EVERY_S) == 0
    assert 0 < other.take(EVERY_S) <= HELD_S
    clock.ahead_s += RENEW_S + 1
    assert one.renew()
    clock.ahead_s += HELD_S - 1
    assert other.take(EVERY_S) > 0
    clock.ahead_s += 2
    assert other.take(EVERY_S) == 0
    clock.ahead_s += RENEW_S + 1
    assert not one.renew()
    one.end(EVERY_S, found={"removed": 1})  # counts no more
    last = other.last()
    assert last is not None
    assert (last.holder, last.ended) == ("other", None)


def test_a_failure_is_noted_and_tried_again_soon(stores: Stores, clock: Moving) -> None:
    def work(*_: Any) -> dict[str, int]:
        raise Unavailable("BucketGone", "the bucket is away" + "y" * 5000)

    its = runner(stores, clock, work)
    its.look()
    clock.ahead_s += EVERY_S + 1
    assert its.look() == RETRY_S
    last = ChoreTurns(stores.projections, "gc", "x", clock).last()
    assert last is not None
    assert last.problem is not None
    assert last.problem.startswith("the bucket is away")
    assert len(last.problem) == MOST_PROBLEM_CHARS
    assert outcomes(stores) == ["failed"]


def test_a_stop_ends_the_work_and_the_next_service_goes_on(stores: Stores, clock: Moving) -> None:
    def work(_: Stores, go_on: Callable[..., None]) -> dict[str, int]:
        its.stop()
        go_on("dataset", 1)
        raise AssertionError("it was stopped")

    its = runner(stores, clock, work)
    its.look()
    clock.ahead_s += EVERY_S + 1
    its.look()
    assert outcomes(stores) == []
    assert ChoreTurns(stores.projections, "gc", "next", clock).take(EVERY_S) == 0


def test_work_whose_turn_another_service_took_stops(stores: Stores, clock: Moving) -> None:
    stopped: list[bool] = []

    def work(_: Stores, go_on: Callable[..., None]) -> dict[str, int]:
        clock.ahead_s += HELD_S + 1
        assert ChoreTurns(stores.projections, "gc", "other", clock).take(EVERY_S) == 0
        clock.ahead_s += RENEW_S + 1
        try:
            go_on("dataset", 1, 2)
        except Stopping:
            stopped.append(True)
            raise
        return {}

    its = runner(stores, clock, work)
    its.look()
    clock.ahead_s += EVERY_S + 1
    its.look()
    assert stopped == [True]


def test_the_threads_of_chores_end_with_the_service(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with serving(tmp_path):
        begun = [one for one in threading.enumerate() if one.name.startswith("upkeep ")]
        own = [one for one in begun if one not in before]
        assert {"upkeep gc", "upkeep fsck"} <= {one.name for one in own}
    for one in own:
        one.join(60)
    assert not [one for one in own if one.is_alive()]


@pytest.mark.parametrize("note", [b"", b"{", b'{"due": "soon"}', b"[]", b"\xff"])
def test_a_note_that_cannot_be_read_begins_again(
    stores: Stores, clock: Moving, note: bytes
) -> None:
    stores.projections.put("upkeep/gc.json", [note])
    turns = ChoreTurns(stores.projections, "gc", "one", clock)
    assert turns.take(EVERY_S) == EVERY_S
    assert turns.last() is not None


def test_a_clock_that_was_set_back_delays_no_chore_for_longer_than_its_interval(
    stores: Stores, clock: Moving
) -> None:
    turns = ChoreTurns(stores.projections, "gc", "one", clock)
    clock.ahead_s = 365 * 86_400
    turns.take(EVERY_S)
    clock.ahead_s = 0
    assert turns.take(EVERY_S) == EVERY_S
    clock.ahead_s = EVERY_S + 1
    assert turns.take(EVERY_S) == 0


def chores(data: Path, **settings: Any) -> dict[str, Chore]:
    return {one.name: one for one in chores_of(UpkeepSettings(**settings), data)}


def test_garbage_goes_and_damage_is_found_and_put_aside(stores: Stores, tmp_path: Path) -> None:
    data = tmp_path / "data"
    made, blocks = grown(stores)
    part = blocks[2].event.new_data  # type: ignore[union-attr]
    assert part is not None
    its = chores(data, scrub_every_s=60, scrub_bytes_s=1 << 30)
    calls: list[Any] = []
    assert its["gc"].work(stores, lambda *given: calls.append(given))["removed"] == 0
    assert its["fsck"].work(stores, lambda *_: None) == {"datasets": 1, "problems": 0}
    key = key_of(made, ObjectKind.DATA, part.physical_hash)
    path = stores.objects.local_paths.path(key)  # type: ignore[union-attr]
    path.chmod(0o600)
    path.write_bytes(b"x" * path.stat().st_size)
    assert its["fsck"].work(stores, lambda *_: None)["problems"] == 0  # it reads no bytes
    assert its["scrub"].work(stores, lambda *_: None)["problems"] == 1
    assert calls


def test_settings_say_which_chores_there_are(tmp_path: Path) -> None:
    assert [*chores(tmp_path)] == ["gc", "fsck"]
    assert [*chores(tmp_path, gc_every_s=0, fsck_every_s=0, scrub_every_s=5)] == ["scrub"]
    assert "compact" in chores(tmp_path, compact_every_s=5)
    for name, text in (("GC_EVERY_S", "-1"), ("SCRUB_BYTES_S", "0"), ("COMPACT", "1")):
        with pytest.raises(BadInput):
            read_settings(UpkeepSettings, {f"ODF_UPKEEP_{name}": text}, {})


def test_the_admin_page_tells_of_the_last_run_and_of_a_failure(tmp_path: Path) -> None:
    with serving(tmp_path / "data", tenancy="multi") as service:
        stores, clock = service.node.stores, Moving()
        service.token("chief")
        chief = stores.accounts.find_account("chief")
        service.node.membership.set_admin(chief, is_admin=True)

        def work(*_: Any) -> dict[str, int]:
            raise Unavailable("BucketGone", "the bucket is away")

        its = runner(stores, clock, work)
        its.look()
        clock.ahead_s += EVERY_S + 1
        its.look()
        with service.http() as http:
            http.cookies.set("odf_session", service.token("chief"))
            page = http.get("/v/admin/storage", headers={"accept": "text/html"}).text
    assert "failed: the bucket is away" in page


def test_datasets_with_many_small_slices_are_compacted_one_at_a_time_and_others_left_out(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, _ = grown(stores, "kamu/many", slices=5)
    other, _ = grown(stores, "kamu/other", slices=5)
    grown(stores, "kamu/few", slices=2)
    read, _ = grown(stores, "kamu/read", slices=5)
    reader, _ = grown(stores, "kamu/reader", slices=1)
    stores.registry.set_inputs(reader.id, [read.id])
    monkeypatch.setattr(upkeep, "POLL_S", 0.01)
    worked: list[Any] = []

    def work(*_: object) -> None:
        """A worker that does what waits."""
        waiting = stores.jobs.page(statuses=(JobStatus.WAITING,))
        assert len(waiting) <= 1
        if waiting and (claimed := stores.jobs.claim("w", kinds=("compact",), lease=LEASE)):
            worked.append(claimed.spec.dataset)
            stores.jobs.finish(claimed.id, "w", Succeeded({}))

    its = chores(tmp_path, compact_every_s=9, compact_saves=3)
    assert its["compact"].work(stores, work) == {"compacted": 2, "failed": 0}
    assert set(worked) == {many.id, other.id}
    assert len(worked) == 2
