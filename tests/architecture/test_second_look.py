"""A run of all tests looks a second time at a few that failed, and at nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECOND_LOOK = ROOT / "tests" / "support" / "second_look.py"
BROKEN = "def test_broken(): raise ValueError\n"
UNSTEADY = """
from pathlib import Path
def test_unsteady():
    tried = Path("tried")
    if not tried.exists():
        tried.touch()
        raise ValueError
"""


def looked(folder: Path, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    first = subprocess.run([sys.executable, "-m", "pytest", "-q", "."], cwd=folder, check=False)
    assert first.returncode == 1
    assert first.returncode == 1
    return subprocess.run(
        [sys.executable, str(SECOND_LOOK), "3"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )


def test_a_test_that_holds_alone_is_named_and_fails_nothing(tmp_path):
    ended = looked(tmp_path, unsteady=UNSTEADY)
    assert ended.returncode == 0
    assert "UNSTEADY" in ended.stdout
    assert "test_unsteady.py::test_unsteady" in ended.stdout


def test_a_test_that_fails_twice_fails_the_run(tmp_path):
    assert looked(tmp_path, unsteady=UNSTEADY, broken=BROKEN).returncode == 1


def test_many_failures_are_no_accident(tmp_path):
    many = "".join(f"def test_{n}(): Path('no/such').touch()\n" for n in range(4))
    ended = looked(tmp_path, many="from pathlib import Path\n" + many)
    assert (ended.returncode, "4 tests failed" in ended.stdout) == (1, True)
