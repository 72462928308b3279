"""What `--costs` writes: processor time of tests, fixtures and the processes that they begin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from costs import summed

ROOT = Path(__file__).parents[2]
TESTS = """
import subprocess, sys, pytest

BUSY = "x = 0\\nwhile __import__('time').process_time() < 1: x += 1"

@pytest.fixture(scope="module")
def made():
    exec(BUSY, {})

def test_with_a_fixture(made):
    pass

def test_with_a_child():
    subprocess.run([sys.executable, "-c", BUSY], check=True)

def test_that_sleeps():
    __import__("time").sleep(1)
"""


def test_costs_are_processor_time_also_of_children_and_not_of_sleep(tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    told = tmp_path / "told"
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}", "PATH": "/usr/bin:/bin"}
    path["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path)  # a run closes the folder of all runs to others
    words = [sys.executable, "-m", "pytest", "-q", "--costs", str(told), str(tmp_path)]
    done = subprocess.run(
        words, cwd=tmp_path, env=path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    costs = summed(told)
    tests = {name.rsplit("::")[-1]: row for name, row in costs["tests"].items()}
    assert tests["test_with_a_child"][0] >= 0.9
    assert tests["test_that_sleeps"][0] < 0.9 <= tests["test_that_sleeps"][1]
    [(fixture, row)] = [each for each in costs["fixture"].items() if each[0].startswith("made ")]
    assert "(module)" in fixture
    assert row[2] == 1
    [whole] = costs["process"].values()
    assert whole[0] >= 1.9
    shown = [sys.executable, str(ROOT / "tests/support/costs.py"), str(told)]
    table = subprocess.run(shown, env=path, capture_output=True, text=True, check=True).stdout
    assert "test_with_a_child" in table
