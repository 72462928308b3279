"""The commands that look after a node: what they say, and what they end with."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from chain_maker import entry, long_chain
from refusals import refusing
from upkeep_parts import answer, grown, key_of, odf

from odf_node.cli.machine.upkeep import parse_rate
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.runtime.clock import parse_duration
from odf_storage.stores.ports.values import ObjectKind

ORPHAN = b"nobody names this"


def test_a_whole_node_is_clean(stores: Stores, data: Path) -> None:
    grown(stores)
    result = odf("fsck", "--data", data)
    assert result.exit_code == 0
    assert result.stdout.startswith("clean: 1 dataset(s), 4 block(s), 6 object(s)")
    told = answer(odf("fsck", "--data", data, "--json"))
    assert (told["ok"], told["problem_count"], told["problems"]) == (True, 0, [])


def test_runs_of_fsck_and_gc_are_in_the_audit_log(stores: Stores, data: Path) -> None:
    grown(stores)
    odf("gc", "--dry-run", "--data", data)
    assert stores.audit.page() == []
    odf("fsck", "--data", data)
    odf("gc", "--data", data)
    noted = {one.action: one.facts for one in stores.audit.page()}
    assert noted == {"fsck": {"datasets": 1, "problems": 0}, "gc": {"removed": 0}}


def test_what_is_missing_is_told_with_block_and_file_and_ends_with_six(
    stores: Stores, data: Path
) -> None:
    made, blocks = grown(stores)
    part = blocks[2].event.new_data  # type: ignore[union-attr]
    assert part is not None
    stores.objects.delete(key_of(made, ObjectKind.DATA, part.physical_hash))
    result = odf("fsck", "--data", data)
    assert result.exit_code == 6
    line = result.stdout.splitlines()[0]
    assert line.startswith(f"ObjectMissing: kamu/foo #2 {blocks[2].hash} datasets/")
    assert str(part.physical_hash) in line
    told = odf("fsck", "--json", "--quick", "--data", data)
    assert (told.exit_code, answer(told)["problems"][0]["sequence_number"]) == (6, 2)


def test_one_dataset_is_checked_by_name_or_id(stores: Stores, data: Path) -> None:
    made, _ = grown(stores)
    grown(stores, "kamu/bar")
    for name in ("foo", "kamu/FOO", made.id):
        assert answer(odf("fsck", name, "--json", "--data", data))["datasets"] == 1
    assert odf("fsck", "unknown", "--data", data).exit_code == 3


def test_a_scrub_reads_at_its_rate_and_puts_damage_aside(stores: Stores, data: Path) -> None:
    made, blocks = grown(stores)
    path = data / "datasets" / made.id.multibase / "blocks" / str(blocks[1].hash)
    path.write_bytes(bytes(len(blocks[1].raw)))
    result = odf("fsck", "--scrub", "100M", "--data", data)
    assert result.exit_code == 6
    assert "[quarantined]" in result.stdout
    assert not path.exists()
    assert "[repaired]" in odf("fsck", "--repair", "--data", data).stdout
    assert path.read_bytes() == blocks[1].raw
    assert odf("fsck", "--data", data).exit_code == 0


def test_garbage_within_the_grace_time_stays(stores: Stores, data: Path) -> None:
    made, _ = grown(stores)
    key = key_of(made, ObjectKind.DATA, Multihash.of(ORPHAN))
    stores.objects.put(key, [ORPHAN])
    for words in (["--dry-run"], [], ["--grace", "1h"]):
        told = answer(odf("gc", *words, "--json", "--data", data))
        assert (told["removed"], told["young"], told["dry_run"]) == ({}, 1, "--dry-run" in words)
    assert stores.objects.stat(key) is not None


def test_old_garbage_is_told_first_and_then_removed(stores: Stores, data: Path) -> None:
    made, _ = grown(stores)
    key = key_of(made, ObjectKind.DATA, Multihash.of(ORPHAN))
    stores.objects.put(key, [ORPHAN])
    os.utime(data / "datasets" / made.id.multibase / "data" / str(key.hash), (1, 1))
    dry = odf("gc", "--dry-run", "--data", data)
    assert "would remove 1 x unreferenced data, 17 bytes" in dry.stdout
    assert stores.objects.stat(key) is not None
    assert "removed 1 x unreferenced data, 17 bytes" in odf("gc", "--data", data).stdout
    assert stores.objects.stat(key) is None


@pytest.mark.parametrize("grace", ["59m", "0h", "24", "x", "-1h", ""])
def test_a_grace_time_that_covers_no_commit_is_refused(data: Path, grace: str) -> None:
    result = odf("gc", "--grace", grace, "--data", data)
    assert result.exit_code == 2
    assert not data.exists()


def test_a_lost_database_is_made_again(data: Path, tmp_path: Path) -> None:
    first = open_stores(StoreSettings(data=data, durable=False))
    grown(first)
    made = entry("kamu/bar")
    first.create_dataset(made, long_chain(made.id, 3))
    first.close()
    fresh = f"sqlite:///{tmp_path}/fresh.db"
    told = odf("index", "rebuild", "--data", data, "--database-url", fresh)
    assert (told.exit_code, told.stdout) == (0, "indexed 2 dataset(s), 7 block(s)\n")
    for words in ([], ["--database-url", fresh]):
        check = odf("index", "rebuild", "--check", "--data", data, *words)
        assert check.exit_code == 0
        assert check.stdout.startswith("equal: 2 dataset(s), 7 block(s)")
    again = odf("index", "rebuild", "--data", data)
    assert again.exit_code == 5, "there is an index already"


def test_an_index_that_differs_ends_with_six(stores: Stores, data: Path) -> None:
    grown(stores)
    assert stores.engine is not None
    with stores.engine.begin() as db:
        db.exec_driver_sql("UPDATE datasets SET visibility = 'Public'")
    result = odf("index", "rebuild", "--check", "--json", "--data", data)
    assert result.exit_code == 6
    assert answer(result)["difference_count"] == 1


def test_a_database_is_brought_up_to_date(data: Path) -> None:
    result = odf("db", "migrate", "--data", data)
    assert (result.exit_code, result.stdout) == (0, "the database is up to date\n")
    assert (data / "node.db").exists()


def test_a_database_of_a_version_before_the_first_is_refused_in_one_line(
    stores: Stores, data: Path
) -> None:
    grown(stores)
    assert stores.engine is not None
    with stores.engine.begin() as db:
        db.exec_driver_sql("UPDATE alembic_version SET version_num = '0017'")
    for words in (("db", "migrate"), ("fsck",), ("serve", "--port", "0", "--workers", "0")):
        result = odf(*words, "--data", data)
        assert result.exit_code == 1
        assert result.stderr.startswith("odf-node: the database has schema 0017 of a development")
        assert result.stderr.count("\n") == 1


def test_times_and_rates_are_read_as_people_write_them() -> None:
    assert parse_duration("90m") == timedelta(minutes=90)
    assert parse_duration("2d") == timedelta(days=2)
    assert [parse_rate(text) for text in ("800", "50M", "2k", "1G")] == [
        800,
        50 << 20,
        2048,
        1 << 30,
    ]
    for text in ("", "M", "1.5M", "0", "0M", "-1", "10MB"):
        with refusing("UnreadableRate"):
            parse_rate(text)
    for text in ("", "h", "1w", "1.5h", "²h"):
        with refusing("UnreadableDuration"):
            parse_duration(text)


@pytest.mark.parametrize(
    "words",
    [
        ["fsck"],
        ["gc"],
        ["index", "rebuild", "--check"],
        ["merge-state", "check"],
        ["audit"],
        ["account", "list"],
        ["token", "list", "--account", "kamu"],
    ],
    ids=" ".join,
)
def test_a_mistyped_folder_is_no_clean_node(tmp_path: Path, words: list[str]) -> None:
    elsewhere = tmp_path / "mistyped"
    result = odf(*words, "--data", elsewhere)
    assert result.exit_code == 3
    assert f"there is no node in {elsewhere}; name its folder with --data" in result.stderr
    assert not elsewhere.exists()


def test_a_copy_of_the_objects_alone_is_told_from_a_node(
    stores: Stores, data: Path, tmp_path: Path
) -> None:
    grown(stores)
    copy = tmp_path / "copy"
    shutil.copytree(data / "datasets", copy / "datasets")
    assert "odf-node index rebuild" in odf("fsck", "--data", copy).stderr
    assert odf("index", "rebuild", "--data", copy).exit_code == 0
    assert odf("fsck", "--data", copy).exit_code == 0


def test_a_token_of_a_node_that_was_not_there_is_noted(tmp_path: Path) -> None:
    words = ("token", "create", "--account", "kamu", "--data", tmp_path / "new")
    assert "there was no node" in odf(*words).stderr
    assert odf(*words).stderr == ""
