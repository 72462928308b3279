"""Completion in shells: what Tab offers for a dataset, and how long that may take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from service import serving, ten_rows

from odf_storage.stores.ports.values import Visibility

HEAVY = ("pyarrow", "numpy", "sqlalchemy", "fastapi", "websockets", "rich", "jinja2", "pandas")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("completed"), tenancy="multi") as service:
        service.keep(ten_rows(), "anna/weather")
        service.keep(ten_rows(), "anna/wells")
        service.keep(ten_rows(), "anna/hidden", Visibility.PRIVATE)
        yield service


def tab(folder: Path, line: str, shell: str = "bash", **env: str) -> list[str]:
    """What the command offers for the last word of a line; a blank ends the word before."""
    words = line.split(" ")
    asked = {
        "_ODF_NODE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1) if shell == "bash" else words[-1],
        "ODF_NODE_CONFIG": str(folder / "config"),
    }
    run = [sys.executable, "-c", "from odf_node.cli.main import main; main(prog_name='odf-node')"]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ODF_")}
    done = subprocess.run(
        run, capture_output=True, text=True, env={**kept, **asked, **env}, check=False
    )
    assert done.stderr == ""
    return [each.partition(",")[2] for each in done.stdout.splitlines() if "plain" in each]


def test_names_of_the_node_are_offered_where_a_dataset_is_meant(node, tmp_path):
    home = {"ODF_NODE_URL": node.url}
    assert tab(tmp_path, "odf-node describe anna/we", **home) == ["anna/weather", "anna/wells"]
    assert tab(tmp_path, "odf-node read an", **home) == ["anna/weather", "anna/wells"]
    assert tab(tmp_path, "odf-node dataset delete anna/wea", **home) == ["anna/weather"]
    assert tab(tmp_path, "odf-node describe zz", **home) == []


def test_private_names_are_offered_to_those_who_may_read_them(node, tmp_path):
    home = {"ODF_NODE_URL": node.url}
    assert tab(tmp_path, "odf-node read anna/hi", **home) == []
    home["ODF_NODE_TOKEN"] = node.token("anna")
    assert tab(tmp_path, "odf-node read anna/hi", **home) == ["anna/hidden"]


def test_names_of_a_repository_are_offered_behind_its_name(node, tmp_path):
    from odf_node.client.nodes.remotes import Repositories

    Repositories(tmp_path / "config").add("work", node.url)
    assert tab(tmp_path, "odf-node pull wo") == ["work/"]
    assert tab(tmp_path, "odf-node pull work/anna/wel") == ["work/anna/wells"]


def test_without_a_node_or_with_one_that_does_not_answer_nothing_is_offered(tmp_path):
    assert tab(tmp_path, "odf-node read x") == []
    assert tab(tmp_path, "odf-node read x", ODF_NODE_URL="http://127.0.0.1:9") == []
    assert tab(tmp_path, "odf-node read x", ODF_NODE_URL="nonsense") == []
    assert tab(tmp_path, "odf-node desc", ODF_NODE_URL="http://127.0.0.1:9") == ["describe"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_lines_of_its_own(shell):
    code = f"from odf_node.cli.main import main; main(['completion', '{shell}'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"_ODF_NODE_COMPLETE={shell}_complete" in done.stdout
    assert "odf-node" in done.stdout


def test_completing_a_command_loads_no_library_of_its_work():
    code = (
        "import sys; from odf_node.cli.shell.completion import completing\n"
        "from odf_node.cli.main import main; import click\n"
        "completing(main.get_command(click.Context(main), 'read'))\n"
        f"print([each for each in {HEAVY!r} if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
