"""Programs of a node on several machines measure times by one clock, whatever their own say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from servers import wait_until
from upkeep_parts import grown

from odf_protocol.identity import DatasetId
from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.backup.make import back_up
from odf_storage.datasets.backup.place import CLAIM, open_place
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.upkeep.gc import collect_garbage
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.ports.values import JobSpec
from odf_storage.stores.sql import clock as clock_code
from odf_storage.stores.sql.clock import DatabaseClock
from odf_storage.stores.sql.engine import open_engine

TWO_HOURS_NS = 7200 * NANOS
NEAR_NS = 600 * NANOS
LEASE = timedelta(seconds=30)


def opened(folder: Path, url: str | None) -> Stores:
    return open_stores(StoreSettings(data=folder, database_url=url, durable=False))


def is_near(one: Instant, other: Instant) -> bool:
    return abs(one.ns - other.ns) < NEAR_NS


@pytest.fixture(params=[2, -2], ids=["ahead", "behind"])
def pair(
    empty_postgres_url: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Stores, Stores, Instant]]:
    """The stores of a program, of another one whose machine has a clock that is hours off, and
    the time."""
    right = opened(tmp_path / "right", empty_postgres_url)
    now, real, off_ns = right.clock(), time.time_ns, request.param * 3600 * NANOS
    monkeypatch.setattr(time, "time_ns", lambda: real() + off_ns)
    odd = opened(tmp_path / "odd", empty_postgres_url)
    yield right, odd, now
    right.close()
    odd.close()


def test_no_machine_takes_the_jobs_of_another_whose_clock_is_hours_off(
    pair: tuple[Stores, Stores, Instant],
) -> None:
    right, odd, now = pair
    assert not is_near(system_clock(), now)
    for first, second in ((right, odd), (odd, right)):
        job = first.jobs.submit(JobSpec("ingest", DatasetId(bytes(32)), {}))
        claimed = first.jobs.claim("first", ["ingest"], lease=LEASE)
        assert claimed is not None
        assert is_near(claimed.lease_until, now)
        assert is_near(claimed.submitted_at, now)
        assert second.jobs.claim("second", ["ingest"], lease=LEASE) is None
        first.jobs.extend(job, "first", lease=timedelta())
        assert second.jobs.claim("second", ["ingest"], lease=LEASE).id == job
        second.jobs.cancel(job)


def test_garbage_is_as_old_and_backups_are_of_the_time_as_the_shared_clock_says(
    pair: tuple[Stores, Stores, Instant], tmp_path: Path
) -> None:
    _, odd, now = pair
    grown(odd, "kamu/towns")
    (move,) = odd.refs.moves(after=0, limit=1000)[-1:]
    assert is_near(move.at, now)
    place = open_place(str(tmp_path / "backups"), None, durable=False)
    place.clock = odd.clock
    back_up(odd, place, version="0.1.0")
    assert collect_garbage(odd).removed == {}


def test_the_time_of_the_server_goes_on_while_it_is_away_and_is_asked_for_again(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(empty_postgres_url)
    clock = DatabaseClock(engine)
    began = clock()
    monkeypatch.setattr(clock_code, "AGAIN_S", 0.0)
    monkeypatch.setattr(clock_code, "_ASKED", sa.text("SELECT no_such_thing"))
    for _ in range(20):
        assert is_near(clock(), began)
    ahead = "SELECT ((extract(epoch FROM clock_timestamp()) + 7200) * 1000000)::bigint"
    monkeypatch.setattr(clock_code, "_ASKED", sa.text(ahead))
    wait_until(lambda: clock().ns - began.ns > TWO_HOURS_NS - NEAR_NS, "the time of the server")
    engine.dispose()


def test_programs_of_one_machine_share_its_clock(tmp_path: Path) -> None:
    stores = opened(tmp_path, None)
    assert stores.clock is system_clock
    stores.close()


def test_a_claim_of_a_clock_that_was_ahead_does_not_stop_backups(tmp_path: Path) -> None:
    stores, place = opened(tmp_path / "data", None), open_place(str(tmp_path / "b"), None)
    place.clock = lambda: Instant(system_clock().ns + TWO_HOURS_NS)
    place.begin("aa")
    holding = place.claimed()
    holding.__enter__()
    kept = place.store.read(CLAIM, most=1000)
    assert kept is not None
    holding.__exit__(None, None, None)
    elsewhere = kept.raw.replace(b'"host":"', b'"host":"another-')
    place.store.swap(CLAIM, elsewhere, expected=None)
    place.clock = system_clock
    with place.claimed():
        pass
    stores.close()
