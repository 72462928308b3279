"""Every Python block of docs/python.md runs, from top to bottom, against a node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nodes import served

import odf_node

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 7
    with served(tmp_path / "node", ODF_WORKER_WARM_UP="false") as node:
        monkeypatch.setenv("ODF_NODE_TOKEN", node.token())
        monkeypatch.chdir(tmp_path)
        odf_node.publish([{"city": "Oslo", "population": 717_000}], f"{node.url}/cities")
        names: dict[str, object] = {}
        for block in blocks:
            exec(block.replace("127.0.0.1:8080", node.url.removeprefix("http://")), names)
    assert names["news"].rows.num_rows == 1  # type: ignore[attr-defined]
    assert names["later"].rows.num_rows == 0  # type: ignore[attr-defined]
    assert names["files"].count_rows() == 1  # type: ignore[attr-defined]
    assert names["receipt"].rows_added == 2  # type: ignore[attr-defined]
