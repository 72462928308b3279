"""Tests that failed beside the others run again, alone.

    python tests/support/second_look.py COUNT     after a run of pytest that ended with 1

A test that fails among sixteen thousand on a busy machine and holds alone is unsteady: a fault of
its own, named at the end so that somebody mends it. One that fails twice fails the run, and so do
more than COUNT failures: that many are no accident.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
"""What pytest leaves behind: an object whose names are the tests that failed."""


def main(most: int) -> int:
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= most:
        print(f"{len(failed)} tests failed; a second look is for 1 to {most}")
        return 1
    print("\nThese failed beside the others, and run again alone:", *failed, sep="\n  ", flush=True)
    ended = subprocess.run([sys.executable, "-m", "pytest", "--tb=short", *failed], check=False)
    if ended.returncode == 0:
        print("UNSTEADY (failed, then held alone; mend them):", *failed, sep="\n  ")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
