"""The blocks of docs/first-minutes-publisher.md, run one after the other as a stranger would."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from nodes import COMMAND

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[2] / "docs" / "first-minutes-publisher.md"


def test_a_publisher_gets_from_a_file_to_a_dataset_in_minutes(node, tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    env = {
        **os.environ,
        "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}",
        "ODF_NODE_CONFIG": str(tmp_path / "config"),
        "ODF_NODE_TOKEN": node.token(),  # in place of the login, which takes a person
    }
    said = ""
    for block in blocks:
        text = block.replace("http://127.0.0.1:8080", node.url)
        done = subprocess.run(
            ["bash", "-ec", text],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        said += done.stdout
    assert "2 row(s) read, 2 added" in said
    assert "norway is Public" in said.replace("/ is", " is")
    assert "1 corrected" in said
    assert "Trondheim" in said
