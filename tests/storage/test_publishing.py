"""Schedules and variables keep their promises on SQLite and PostgreSQL."""

from __future__ import annotations

import base64
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from chain_maker import NOON, chain, entry
from refusals import refusing

from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.errors import DatasetNotFound
from odf_storage.stores.ports.values import JobSpec, Schedule, Variable
from odf_storage.stores.registers.accounts.sealing import open_keys

ID = entry().id
LATER = Instant(NOON.ns + 60 * NANOS)


def schedule(name: str = "s", at: Instant | None = NOON) -> Schedule:
    return Schedule(
        id=name,
        dataset=ID,
        kind="refresh",
        payload={"exhaustSources": True},
        cron="* * * * *",
        every_s=None,
        time_zone="UTC",
        paused=at is None,
        created_at=NOON,
        next_at=at,
    )


@pytest.fixture(autouse=True)
def _dataset(stores: Stores) -> None:
    blocks, _ = chain(ID)
    stores.registry.create(entry(), blocks=blocks)


SPEC = JobSpec("poll", ID, {}, lock=str(ID), dedup_key="poll", schedule="s")


def test_a_schedule_is_kept_replaced_listed_and_removed(stores: Stores) -> None:
    kept = stores.schedules
    kept.put(schedule())
    kept.put(schedule("t", None))
    assert kept.find("s") == schedule()
    kept.put(replace(schedule(), cron=None, every_s=60))
    assert [each.every_s for each in kept.of_dataset(ID)] == [60, None]
    assert kept.remove("s")
    assert not kept.remove("s")
    assert kept.find("s") is None
    assert kept.find("\0") is None


def test_only_what_is_due_is_found_longest_overdue_first(stores: Stores) -> None:
    kept = stores.schedules
    for name, at in (("a", LATER), ("b", NOON), ("c", None)):
        kept.put(schedule(name, at))
    assert [each.id for each in kept.due(NOON)] == ["b"]
    assert [each.id for each in kept.due(LATER)] == ["b", "a"]
    assert kept.next_due() == NOON


def test_of_many_that_start_a_due_schedule_one_does(stores: Stores) -> None:
    stores.schedules.put(schedule())
    (due,) = stores.schedules.due(NOON)
    barrier, started = threading.Barrier(6), []

    def start() -> None:
        barrier.wait()
        started.append(stores.schedules.start(due, SPEC, now=NOON, next_at=LATER))

    starters = [threading.Thread(target=start) for _ in range(6)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    assert len(started) == 6
    assert len([job for job in started if job is not None]) == 1
    assert [job.spec.schedule for job in stores.jobs.page()] == ["s"]
    found = stores.schedules.find("s")
    assert found is not None
    assert (found.last_at, found.next_at) == (NOON, LATER)


def test_a_run_that_still_waits_is_not_queued_twice(stores: Stores) -> None:
    stores.schedules.put(schedule())
    first = stores.schedules.start(schedule(), SPEC, now=NOON, next_at=LATER)
    again = stores.schedules.start(schedule(at=LATER), SPEC, now=LATER, next_at=None)
    assert first == again
    assert len(stores.jobs.page()) == 1


def test_a_schedule_of_no_dataset_is_refused_and_goes_with_its_own(stores: Stores) -> None:
    stores.schedules.put(schedule())
    stores.registry.forget(ID)
    assert stores.schedules.find("s") is None
    with pytest.raises(DatasetNotFound):
        stores.schedules.put(schedule())


def test_variables_are_kept_by_owner_and_name(stores: Stores) -> None:
    kept = stores.variables
    for owner, name, value in (("x", "b", b"1"), ("x", "a", b"2"), ("y", "a", b"3")):
        kept.put(owner, Variable(name=name, is_secret=False, value=value, updated_at=NOON))
    kept.put("x", Variable(name="b", is_secret=True, value=b"4", updated_at=LATER, key_id="k"))
    assert list(kept.of_owner("x")) == ["a", "b"]
    assert kept.of_owner("x")["b"].value == b"4"
    assert list(kept.owners()) == ["x", "y"]
    assert kept.remove("x", "a")
    assert not kept.remove("x", "a")
    assert kept.of_owner("none") == {}


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def test_a_secret_is_sealed_for_its_owner_and_name_alone(tmp_path: Path) -> None:
    keys = open_keys(new_key(), tmp_path)
    sealed = keys.sealed("owner", "NAME", "hush", at=NOON)
    assert b"hush" not in sealed.value
    assert keys.opened("owner", sealed) == "hush"
    for owner, variable in (
        ("other", sealed),
        ("owner", replace(sealed, name="OTHER")),
        ("owner", replace(sealed, value=sealed.value[:-1] + bytes([sealed.value[-1] ^ 1]))),
    ):
        with refusing("SecretUnreadable"):
            keys.opened(owner, variable)


def test_keys_are_changed_one_after_the_other(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    sealed = open_keys(old, tmp_path).sealed("o", "N", "hush", at=NOON)
    both = open_keys(f"{new}, {old}", tmp_path)
    assert both.opened("o", sealed) == "hush"
    again = both.sealed("o", "N", "hush", at=NOON)
    assert open_keys(new, tmp_path).opened("o", again) == "hush"
    with refusing("SecretUnreadable", match="does not have"):
        open_keys(new, tmp_path).opened("o", sealed)


def test_a_node_without_keys_makes_one_that_only_its_owner_reads(tmp_path: Path) -> None:
    first, second = open_keys(None, tmp_path), open_keys("", tmp_path)
    assert first.newest == second.newest
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["short", base64.b64encode(b"x" * 31).decode(), "é" * 44])
def test_a_key_that_is_none_is_refused_and_not_repeated(text: str, tmp_path: Path) -> None:
    with refusing("MalformedKey") as bad:
        open_keys(text, tmp_path)
    assert text not in bad.value.message
