"""The tour of docs/kartothek.md, from top to bottom, against a node with its worker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nodes import served

pytestmark = pytest.mark.e2e

END = "import os, sys; sys.stdout.flush(); os._exit(0)\n"
"""The end of a Python program: Arrow's own threads may abort an interpreter that cleans up after
reading through a file object in Python, when everything of the page has been said."""
PAGE = Path(__file__).parents[2] / "docs" / "kartothek.md"


def script(url: str) -> str:
    """The blocks of the page one after the other, as they are typed."""
    blocks = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "sh", "python", "sh", "sh"]
    typed = [
        text if kind == "sh" else f"python - <<'END'\n{text}{END}END\n" for kind, text in blocks
    ]
    return "".join(typed).replace("http://127.0.0.1:8080", url)


def test_a_dataset_is_published_read_filtered_taken_in_again_and_verified(tmp_path: Path) -> None:
    (tmp_path / "exports").mkdir()
    settings = {
        "ODF_STORE_PUBLISH_TO": json.dumps([(tmp_path / "exports").as_uri()]),
        "ODF_WORKER_FETCH_ROOTS": json.dumps([str(tmp_path / "exports")]),
        "ODF_WORKER_WARM_UP": "false",
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with served(tmp_path / "node", **settings) as node:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script(node.url)],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert re.search(r"^Fresh towns at file://.*: 3 rows in 2 partitions$", said, re.MULTILINE)
    assert "index on city: 3 values" in said
    filtered = re.search(r"^\[.*?\]$", said, re.DOTALL | re.MULTILINE)
    assert filtered is not None
    assert "Rome" in filtered[0]
    assert "Bern" not in filtered[0]
    # the node may have been there before it was asked to
    told = re.search(r"^(published|up-to-date): 4 rows in 3 partitions$", said, re.MULTILINE)
    assert told is not None
    table = said[told.end() :]
    assert re.findall(r"\b(Bern|Cairo|Oslo|Rome)\b", table) == [
        "Bern", "Cairo", "Oslo", "Rome"
    ]  # fmt: skip
    kept = sorted(path.name for path in (tmp_path / "copy" / "data").iterdir())
    assert sorted(re.findall(r"^copy/data/(\w+)$", said, re.MULTILINE)) == kept
    assert len(kept) == 3
