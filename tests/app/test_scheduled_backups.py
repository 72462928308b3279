"""Backups on a schedule: one service makes each, and pages and metrics tell of the last one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from service import Service, serving
from upkeep_parts import Ahead, grown, longer

from odf_node.service.accounts.accounts import ensure_account
from odf_node.service.system.backups import BackupRunner, BackupSettings
from odf_node.service.system.recurring import RETRY_S
from odf_protocol.instant import NANOS, Instant
from odf_storage.datasets.backup.last import last_backup
from odf_storage.datasets.backup.manifest import listed
from odf_storage.datasets.backup.place import Place, open_place
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.runtime.clock import Clock, system_clock
from odf_storage.stores.ports.accounts import AuditFilter

EVERY_S = 3600.0
HTML = {"accept": "text/html"}


class Moving:
    """A clock that tests set forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> Instant:
        return Instant(system_clock().ns + int(self.ahead_s * NANOS))


class Home:
    """A node with a dataset, and where its backups go."""

    def __init__(self, folder: Path) -> None:
        self.target, self.data = folder / "backups", folder / "data"
        self.stores = open_stores(StoreSettings(data=self.data, durable=False))
        self.town, self.blocks = grown(self.stores, "kamu/towns")

    def runner(self, clock: Clock, **more: Any) -> BackupRunner:
        given = {"every_s": EVERY_S, "keep": 2, **more}
        return BackupRunner(
            self.stores,
            BackupSettings(**given),
            target=str(given.get("to", self.target)),
            data=self.data,
            objects_url=None,
            clock=clock,
        )

    @property
    def place(self) -> Place:
        return open_place(str(self.target), None)

    @property
    def numbers(self) -> list[int]:
        return [one.number for one in listed(self.place)]

    def outcomes(self) -> list[str]:
        found = self.stores.audit.page(AuditFilter(action="backup"))
        return [one.outcome for one in reversed(found)]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.stores.close()


def test_a_backup_is_made_when_the_newest_is_old_enough_and_so_many_are_kept(home: Home) -> None:
    clock = Moving()
    runner = home.runner(clock)
    for number in range(1, 5):
        assert runner.look() == EVERY_S
        assert home.numbers == [*range(max(1, number - 1), number + 1)]
        clock.ahead_s += EVERY_S - 60
        assert 30 < runner.look() <= 60
        clock.ahead_s += 61
    assert home.outcomes() == ["done"] * 4


def test_after_a_start_and_after_a_command_the_next_backup_waits_for_its_time(home: Home) -> None:
    clock = Moving()
    home.runner(clock).look()
    clock.ahead_s = EVERY_S / 2
    rest_s = home.runner(clock).look()
    assert EVERY_S / 2 - 60 < rest_s <= EVERY_S / 2
    clock.ahead_s = -7200  # the backup is of the future: a clock was wrong
    home.runner(clock).look()
    assert home.numbers == [1, 2]


def test_of_services_that_look_at_once_one_makes_the_backup(home: Home) -> None:
    runners = [home.runner(system_clock) for _ in range(4)]
    for slice_ in range(5):
        longer(home.stores, home.town, home.blocks, value=f"v{slice_}")
    rests: list[float] = []
    threads = [threading.Thread(target=lambda one=one: rests.append(one.look())) for one in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert home.numbers == [1]
    assert len(rests) == 4
    assert home.outcomes() == ["done"]
    assert last_backup(home.stores.projections).problem is None


def test_what_failed_is_noted_in_words_until_a_backup_is_made(home: Home) -> None:
    clock = Moving()
    home.target.mkdir()
    (home.target / "cat.jpg").write_bytes(b"cat")
    runner = home.runner(clock)
    assert runner.look() == RETRY_S
    told = last_backup(home.stores.projections)
    assert (told.at, "other files" in str(told.problem)) == (None, True)
    (home.target / "cat.jpg").unlink()
    assert 0 < runner.look() <= RETRY_S  # not at once again
    clock.ahead_s = RETRY_S
    assert runner.look() == EVERY_S
    told = last_backup(home.stores.projections)
    assert (told.number, told.problem) == (1, None)
    age_s = told.age_s(Ahead(timedelta(hours=1))())
    assert age_s is not None
    assert 3200 < age_s < 3700
    assert home.outcomes() == ["failed", "done"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"to": "data/backups"}, "in the folder of the node"),
        ({"key": Path("no.key")}, "no.key"),
        ({"to": "gopher://x"}, "a store is at"),
    ],
)
def test_a_setting_that_cannot_be_followed_is_told_and_changes_nothing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert home.runner(system_clock, **more).look() == RETRY_S
    assert words in str(last_backup(home.stores.projections).problem)
    assert not home.target.exists()
    assert not (home.data / "backups").exists()


def test_a_service_that_ends_leaves_a_backup_and_the_next_one_makes_it(home: Home) -> None:
    runner = home.runner(system_clock)
    runner.stop()
    runner.look()
    assert home.numbers == []
    assert home.outcomes() == []
    home.runner(system_clock).look()
    assert home.numbers == [1]


def soon(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def told(service: Service) -> tuple[str, dict[str, float]]:
    """The page of storage, and the metrics of backups."""
    ensure_account(service.node.stores.accounts, "chief", os.urandom, is_admin=True)
    with service.http() as http:
        lines = http.get("/system/metrics").text.splitlines()
        http.headers.update(HTML)
        http.post("/v/sign-in", data={"token": service.token("chief")})
        page = http.get("/v/admin/storage").text
    words = (line.split() for line in lines if line.startswith("odf_backup_"))
    return page, {name: float(value) for name, value in words}


def test_a_service_backs_its_node_up_and_tells_how_old_the_last_backup_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "backups"
    target.mkdir()
    (target / "cat.jpg").write_bytes(b"cat")
    monkeypatch.setenv("ODF_BACKUP_TO", str(target))
    with serving(tmp_path / "data") as service:
        soon(lambda: last_backup(service.node.stores.projections).problem is not None)
        page, metrics = told(service)
        assert metrics == {"odf_backup_failing": 1}
        assert "The last attempt to make a backup failed" in page
        assert "other files there, and no backups" in page
    (target / "cat.jpg").unlink()
    with serving(tmp_path / "data") as service:
        soon(lambda: last_backup(service.node.stores.projections).number == 1)
        page, metrics = told(service)
        assert metrics["odf_backup_failing"] == 0
        assert 0 <= metrics["odf_backup_age_seconds"] < 60
        assert "number 1" in page
        assert "failed" not in page
    assert [one.number for one in listed(open_place(str(target), None))] == [1]


def test_without_the_setting_nothing_is_backed_up(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        page, metrics = told(service)
        assert metrics == {"odf_backup_failing": 0}
        assert "Last good backup" in page
        assert not [one for one in threading.enumerate() if one.name == "backups"]
