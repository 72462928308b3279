"""`odf-node doctor`: each fault of a set-up is named with what to do, and nothing is changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from upkeep_parts import Ahead, grown

from odf_node.cli.machine import doctor
from odf_node.cli.main import main
from odf_storage.datasets.backup.last import note_failed, note_made
from odf_storage.datasets.node.open_stores import UNFINISHED, StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import system_clock
from odf_storage.stores.index.sql import RefIndex
from odf_storage.stores.sql.migrate import revert
from odf_workers.confine import apply


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk has room, however full that of the machine is."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 << 30, 50 << 30, 50 << 30))


@pytest.fixture
def stores(data: Path) -> Iterator[Stores]:
    opened = open_stores(StoreSettings(data=data, durable=False))
    grown(opened)
    yield opened
    opened.close()


def examined(*words: object, fails: bool) -> dict[str, list[tuple[str, str, str]]]:
    """What was found, by topic: level, what it says, what to do."""
    given = ["doctor", "--json", *map(str, words)]
    result = CliRunner().invoke(main, given)
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"]) == (int(fails), not fails), told
    found: dict[str, list[tuple[str, str, str]]] = {}
    for each in told["findings"]:
        found.setdefault(each["topic"], []).append((each["level"], each["says"], each["do"]))
    return found


def test_a_whole_set_up_is_well_and_is_left_as_it_is(stores: Stores, data: Path) -> None:
    before = sorted(str(path) for path in data.rglob("*"))
    found = examined("--data", data, fails=False)
    assert list(found) == list(doctor.CHECKS)
    assert sorted(str(path) for path in data.rglob("*")) == before
    shown = CliRunner().invoke(main, ["doctor", "--data", str(data)])
    assert shown.stdout.splitlines()[-1] == "all is well"
    assert len(shown.stdout.splitlines()) <= 25


def test_a_folder_without_a_node_gets_none(tmp_path: Path) -> None:
    found = examined("--data", tmp_path / "typo", fails=True)
    assert found["stores"][0][0] == "bad"
    assert "there is no node" in found["stores"][0][1]
    assert not (tmp_path / "typo").exists()


def test_a_misspelt_setting_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_NODE_PROT", "80")
    found = examined("--data", data, fails=True)
    assert "did you mean ODF_NODE_PORT" in found["settings"][0][1]


def test_a_database_that_does_not_answer_is_told_with_its_setting(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/none"
    found = examined("--data", tmp_path / "n", "--database-url", url, fails=True)
    told = [each for topic in ("stores", "database", "clock") for each in found.get(topic, [])]
    assert any(level == "bad" and "127.0.0.1:1" in says for level, says, _ in told), told


def _full(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shutil, "disk_usage", lambda _: Usage(100 << 30, 99 << 30, 1 << 29))


def _behind(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    ahead = RefIndex(stores.engine, clock=Ahead(timedelta(hours=2)))
    entry = stores.registry.page()[0]
    head = stores.refs.head(entry.id)
    before = stores.blocks.ancestors(entry.id, head, limit=2)[1].hash
    ahead.move(entry.id, expected=head, new=before)


def _open_key(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    (data / "secret.key").write_bytes(bytes(32))
    (data / "secret.key").chmod(0o644)


def _unfinished(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    stores.accounts.secret(UNFINISHED, b"x")


def _old_schema(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    revert(stores.engine, "0018")


def _broken(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    with stores.engine.begin() as db:
        db.execute(sa.text("PRAGMA wal_checkpoint(TRUNCATE)"))
    stores.engine.dispose()
    raw = bytearray((data / "node.db").read_bytes())
    raw[4096:8192] = bytes(range(256)) * 16
    (data / "node.db").write_bytes(raw)


def _no_java(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("JAVA_HOME", str(data))


def _not_confined(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doctor, "_unconfined", lambda: ["any file its user may"])
    patch.setenv("ODF_NODE_QUERY_CONFINEMENT", "require")


def _few_files(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "odf_storage.runtime.processes.raise_limit", lambda needed: f"too few: raise to {needed}"
    )


def _away(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("ODF_NODE_PUBLIC_URL", "http://127.0.0.1:1")


def _no_backup(stores: Stores, data: Path, patch: pytest.MonkeyPatch) -> None:
    note_failed(stores.projections, system_clock(), "the bucket is gone")


FAULTS: dict[str, tuple[Any, str, str]] = {
    "disk": (_full, "512 MiB of 102400 are free", "odf-node gc"),
    "clock": (_behind, "seconds after what this clock says", "NTP"),
    "permissions": (_open_key, "secret.key", "chmod 600"),
    "database, unfinished": (_unfinished, "not restored to its end", "odf-node restore"),
    "database, old": (_old_schema, "has schema 0018", "odf-node db migrate"),
    "database, broken": (_broken, "", ""),
    "backups": (_no_backup, "failed: the bucket is gone", "tries again"),
    "Spark": (_no_java, "has no bin/java", "JDK 17"),
    "confinement": (
        _not_confined,
        "could reach any file its user may",
        "ODF_NODE_QUERY_CONFINEMENT=auto",
    ),
    "descriptors": (_few_files, "too few", "ulimit -n"),
    "network": (_away, "cannot be reached", "ODF_NODE_PUBLIC_URL"),
}


def test_what_cannot_be_confined_is_what_the_program_says_that_confines() -> None:
    reaches = [apply.PARTS[what] for what in apply.missing()]
    assert doctor._unconfined() == reaches


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_with_what_to_do(
    stores: Stores, data: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    make, says, do = FAULTS[fault]
    make(stores, data, monkeypatch)
    found = examined("--data", data, fails=True)
    bad = [each for each in found[fault.partition(",")[0]] if each[0] == "bad"]
    assert len(bad) == 1
    assert says in bad[0][1]
    assert do in bad[0][2]


def test_the_age_of_the_last_backup_is_told_and_that_there_is_none(
    stores: Stores, data: Path
) -> None:
    assert examined("--data", data, fails=False)["backups"][0][:2] == ("note", "there is no backup")
    note_made(stores.projections, 7, str(system_clock()), 0)
    told = examined("--data", data, fails=False)["backups"][0]
    assert told[:2] == ("well", "the last backup is 0 hour(s) old")


def test_what_is_open_to_strangers_is_noted(
    stores: Stores, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODF_NODE_HOST", "0.0.0.0")
    monkeypatch.setenv("ODF_NODE_ANONYMOUS_READS", "all")
    notes = [says for level, says, _ in examined("--data", data, fails=False)["settings"]]
    assert any("knows no address of its own" in says for says in notes)
    assert any("private ones too" in says for says in notes)
