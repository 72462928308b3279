"""The command line as a whole: help, exit codes, errors."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from odf_node.cli.main import COMMANDS, main
from odf_node.cli.shell import output
from odf_protocol.errors import (
    BadInput,
    Conflict,
    Damaged,
    LimitExceeded,
    NodeError,
    NotFound,
    Refused,
)
from odf_protocol.multihash import HashMismatch, Multihash


class _Taken(Conflict):
    pass


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NodeError("x"), 1),
        (BadInput("x"), 1),
        (LimitExceeded("x"), 1),
        (NotFound("x"), 3),
        (Refused("x"), 4),
        (_Taken("x"), 5),
        (Damaged("x"), 6),
        (HashMismatch(Multihash.of(b"a"), Multihash.of(b"b")), 6),
        (OSError("x"), 1),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_every_branch_of_the_error_tree_has_its_exit_code(error, code):
    assert output.exit_code(error) == code


def test_help_names_every_command_and_loads_none_of_them():
    probe = (
        "import sys; from odf_node.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "names = {'httpx', 'pyarrow', 'msgspec', 'rich', 'websockets', 'fastapi'}\n"
        "loaded = names & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("words", [["nonsense"], ["pull"], ["pull", "a", "b", "--nonsense"]])
def test_wrong_usage_has_its_own_exit_code(words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "Usage:" in done.stderr


def test_wrong_usage_is_a_json_document_when_json_is_asked_for():
    done = CliRunner().invoke(main, ["pull", "--json"])
    assert done.exit_code == 2
    assert json.loads(done.stderr)["exitCode"] == 2


def test_a_location_nobody_can_reach_is_wrong_usage(tmp_path):
    done = CliRunner().invoke(main, ["log", "ipfs://bucket/x"])
    assert done.exit_code == 2


def test_a_folder_without_a_dataset_is_not_found(tmp_path):
    for command in ("log", "verify"):
        done = CliRunner().invoke(main, [command, str(tmp_path)])
        assert done.exit_code == 3, done.stderr


def test_a_node_that_does_not_answer_is_a_failure(tmp_path):
    done = CliRunner().invoke(main, ["pull", "http://127.0.0.1:1/x", str(tmp_path / "x"), "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stderr)["type"].endswith("Unreachable")
    assert not (tmp_path / "x").exists()


def test_ctrl_c_ends_with_the_exit_code_shells_know(monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("odf_node.cli.datasets.describe.opened", interrupted)
    done = CliRunner().invoke(main, ["log", str(tmp_path)])
    assert done.exit_code == 130
    assert done.stderr.strip() == "interrupted"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError(13, "Permission denied", "/srv"), "/srv: Permission denied"),
        (OSError("odd"), "odd"),
    ],
    ids=["no file", "file", "words"],
)
def test_errors_of_the_system_are_told_in_words(error, text):
    assert output.message_of(error) == text
