"""The story of the README, played on two real nodes by the demo itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
pytestmark = [pytest.mark.e2e, pytest.mark.spark]


def test_the_demo_posts_pulls_verifies_pushes_and_finds_the_forgery(tmp_path):
    env = {**os.environ, "DEMO_DIR": str(tmp_path / "demo"), "DEMO_KEEP_RUNNING": "0"}
    done = subprocess.run(
        [sys.executable, DEMO], env=env, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for sentence in (
        "10000 rows added, 2000 already known, offsets 10000 to 19999",
        "smart pull and the node's own objects",
        "simple pull and the node's own objects",
        "the copy of the copy and the original",
        "the damaged slice was refused, and nothing became visible",
    ):
        assert sentence in done.stdout
