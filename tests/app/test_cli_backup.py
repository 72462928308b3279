"""`odf-node backup` and `restore`: what they say, and what they end with."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from upkeep_parts import answer, grown, longer, odf

from odf_storage.datasets.node.stores import Stores


def test_a_node_is_backed_up_checked_lost_and_restored(
    stores: Stores, data: Path, tmp_path: Path
) -> None:
    town, blocks = grown(stores, "kamu/towns")
    target = tmp_path / "backups"
    first = odf("backup", target, "--data", data)
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith("backup 1: 1 dataset(s), 1 of them changed, 4 block(s)")
    longer(stores, town, blocks)
    told = odf("backup", "check", target, "--data", data)
    assert told.exit_code == 0
    assert "a restore would lose: kamu/towns: behind block 3, up to block 4" in told.stdout
    second = answer(odf("backup", "make", target, "--data", data, "--keep", 1, "--json"))
    assert (second["ok"], second["changed"], second["removed"]) == (True, 1, [1])
    kept = answer(odf("backup", "list", target, "--json"))["backups"]
    assert [(one["number"], one["datasets"]) for one in kept] == [(2, 1)]
    new = tmp_path / "new"
    report = answer(odf("restore", target, "--data", new, "--json"))
    assert (report["number"], report["datasets"], report["blocks"]) == (2, 1, 5)
    again = odf("restore", target, "--data", new)
    assert (again.exit_code, "there is a node" in again.stderr) == (5, True)
    assert odf("fsck", "--data", new).exit_code == 0
    assert answer(odf("backup", new.parent / "backups", "--data", new, "--json"))["changed"] == 0
    done = [json.loads(line) for line in odf("audit", "--data", new, "--json").stdout.splitlines()]
    assert [one["action"] for one in done[:4]] == ["backup", "fsck", "restore", "backup"]


def test_a_damaged_backup_ends_with_6_and_names_what_to_do(
    stores: Stores, data: Path, tmp_path: Path
) -> None:
    town, _ = grown(stores, "kamu/towns")
    target = tmp_path / "backups"
    odf("backup", target, "--data", data)
    next((target / "objects" / town.id.multibase).iterdir()).write_bytes(b"rotten")
    told = odf("backup", "check", target)
    assert told.exit_code == 6
    assert f"restore with --without {town.id}" in told.stdout
    assert odf("restore", target, "--data", tmp_path / "n").exit_code == 6
    serve = odf("token", "create", "--account", "kamu", "--data", tmp_path / "n")
    assert (serve.exit_code, "run the same `odf-node restore` again" in serve.stderr) == (5, True)
    without = odf("restore", target, "--without", town.id, "--data", tmp_path / "m")
    assert without.exit_code == 0


def test_a_key_seals_backups_and_is_asked_for(stores: Stores, data: Path, tmp_path: Path) -> None:
    grown(stores, "kamu/towns")
    key, target = tmp_path / "key", tmp_path / "backups"
    key.write_text("c2hvcnQ=")
    refused = odf("backup", target, "--key", key, "--data", data)
    assert (refused.exit_code, "openssl rand -base64 32" in refused.stderr) == (2, True)
    key.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    assert odf("backup", target, "--key", key, "--data", data).exit_code == 0
    refused = odf("restore", target, "--data", tmp_path / "n", "--json")
    assert refused.exit_code == 4
    assert json.loads(refused.stderr)["type"] == "urn:odf-node:problem:BackupKeyNeeded"
    assert not (tmp_path / "n").exists()
    assert odf("restore", target, "--key", key, "--data", tmp_path / "n").exit_code == 0


@pytest.mark.parametrize("inside", ["", "backups", "datasets/backups"])
def test_a_backup_is_not_made_in_the_folder_of_the_node(
    stores: Stores, data: Path, inside: str
) -> None:
    grown(stores, "kamu/towns")
    refused = odf("backup", data / inside, "--data", data)
    assert (refused.exit_code, "would be lost" in refused.stderr) == (5, True)
    refused = odf("backup", f"file://{data / inside}", "--data", data)
    assert refused.exit_code == 5


def test_where_there_is_no_backup_commands_say_so(tmp_path: Path) -> None:
    for words in (("backup", "list"), ("backup", "check"), ("restore",)):
        refused = odf(*words, tmp_path / "none")
        assert (refused.exit_code, "there is no backup here" in refused.stderr) == (3, True)
    assert odf("backup", tmp_path / "t", "--data", tmp_path / "typo").exit_code == 3
    assert odf("backup", tmp_path / "t", "--keep", 0).exit_code == 2
    assert not (tmp_path / "t").exists()
