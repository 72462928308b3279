"""The blocks of docs/first-minutes-*.md, run one after the other as a stranger would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from backends import ON_FILES
from nodes import COMMAND, served

pytestmark = [
    pytest.mark.e2e,
    # Where the node keeps its data makes no difference to the pages.
    pytest.mark.parametrize("pair", ON_FILES[:1], indirect=True),
]

DOCS = Path(__file__).parents[2] / "docs"
NODE, MINE = "http://127.0.0.1:8080", "http://127.0.0.1:8081"
SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {{kind: Csv, header: true, ddlSchema: [port STRING, height BIGINT]}}
      merge: {{kind: Ledger, primaryKey: [port]}}
"""
ROWS = "port,height\nOslo,14\nBergen,90\nBrest,540\n"


@pytest.fixture
def follow(tmp_path):
    """Runs all blocks of a page; what they print."""

    def run(role, count, addresses, **env):
        blocks = re.findall(
            r"```(sh|python)\n(.*?)```", (DOCS / f"first-minutes-{role}.md").read_text(), re.DOTALL
        )
        assert len(blocks) == count
        env = {
            **os.environ,
            "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}",
            "ODF_NODE_CONFIG": str(tmp_path / "config"),
            **env,
        }
        said = ""
        for kind, block in blocks:
            for printed, real in addresses.items():
                block = block.replace(printed, real).replace(printed[7:], real[7:])
            program = ["bash", "-ec"] if kind == "sh" else [sys.executable, "-c"]
            done = subprocess.run(
                [*program, block],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
            said += done.stdout
        return said

    return run


@pytest.fixture
def public(node):
    """Makes public datasets with the rows above."""

    def made(*names):
        with node.http(node.token()) as client:
            for name in names:
                created = client.post(
                    "/datasets", content=SOURCE.format(name=name), params={"visibility": "public"}
                )
                assert created.status_code == 201, created.text
                posted = client.post(
                    f"/{name}/ingest", content=ROWS, headers={"content-type": "text/csv"}
                )
                assert posted.status_code == 200, posted.text

    return made


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A node of one's own, without a worker: it starts in seconds."""
    settings = {"ODF_NODE_MIRROR_NETWORKS": '["127.0.0.1/32"]'}
    with served(tmp_path_factory.mktemp("mine") / "data", "--workers", "0", **settings) as running:
        yield running


def test_a_publisher_gets_from_a_file_to_a_dataset_in_minutes(node, follow):
    # The token is in place of the login, which takes a person.
    said = follow("publisher", 4, {NODE: node.url}, ODF_NODE_TOKEN=node.token())
    assert "2 row(s) read, 2 added" in said
    assert "norway is Public" in said.replace("/ is", " is")
    assert "1 corrected" in said
    assert "Trondheim" in said


def test_a_consumer_gets_to_a_frame_and_verifies_it(node, follow, public):
    public("tides")
    said = follow("consumer", 5, {NODE: node.url})
    assert said.count("Brest") >= 4  # frames, SQL, the copy
    assert "valid" in said


@pytest.mark.usefixtures("pair")
def test_an_administrator_lets_people_in_and_gets_the_data_back(mine, follow, tmp_path):
    (tmp_path / "data").symlink_to(mine.data)
    said = follow("administrator", 4, {NODE: mine.url})
    assert "dashboards" in said
    assert "odf_damaged_objects 0" in said
    assert "token create" in said


def test_a_peer_pulls_verifies_pushes_and_mirrors(node, mine, follow, public):
    public("buoys", "lights")
    said = follow(
        "peer",
        6,
        {NODE: node.url, MINE: mine.url},
        ODF_NODE_URL=mine.url,
        ODF_NODE_TOKEN=mine.token(),
    )
    assert "valid" in said
    assert "Brest" in said
