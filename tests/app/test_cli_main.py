"""The command line as a whole: help, exit codes, errors."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from odf_node.cli.main import COMMANDS, main
from odf_node.cli.shell import output
from odf_node.client.nodes.node_api import RequestRefused
from odf_protocol.chain.definition_rules import ChainRuleBroken
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


class NotALink(ChainRuleBroken):
    def __init__(self, code, reason):
        NodeError.__init__(self, code, reason)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NodeError("x"), 1),
        (BadInput("x"), 2),
        (BadInput("SignatureWrong", "x"), 1),
        (NotALink("InvalidEvent", "x"), 1),
        (RequestRefused("x", status=400), 2),
        (RequestRefused("x", status=429), 1),
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


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["wacth"], "'watch'"),
        (["dataset", "lst"], "'list'"),
        (["read", "x", "--limt", "1"], "--limit"),
    ],
)
def test_a_misspelt_word_is_answered_by_the_nearest_one(words, hint):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert hint in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["read", "x", "--limit", "1", "--limit", "2"],
        ["publish", __file__, "--header", "--no-header"],
        ["backup", "--keep", "1", "--keep", "2", "x"],
    ],
)
def test_an_option_that_is_given_twice_is_not_silently_the_last_one(words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "given 2 times" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["evidence", "nowhere"], 2),
        (["evidence", __file__], 2),
        (["publish", "nowhere", "x", "--node", "http://127.0.0.1:1"], 2),
        (["inspect", __file__], 1),
        (["hash", "--logical", __file__], 2),
        (["read", "x", "--as-of", "yesterday"], 2),
        (["conformance", "http://127.0.0.1:1"], 1),
        (["backup", "check", "nowhere"], 3),
        (["fsck", "--data", "nowhere"], 3),
    ],
)
def test_each_way_out_of_a_command_has_the_documented_code(words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    done = CliRunner().invoke(main, words)
    assert done.exit_code == code, done.stderr
    assert "Traceback" not in done.stderr


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
