"""Take each protection out, one after the other, and see whether its tests notice.

    python tests/mutations/run.py [WORD ...]     only mutations whose name holds one of the words

Each mutation is applied to a copy of the tracked files. `noticed`: a named test failed, as it
should; `MISSED`: all of them passed without the protection; `BROKEN`: it does not fit the
code, or the tests did not run. Ends with 1 unless every mutation is noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from mutations import ROOMS, ROOT, BadMutation, Mutation, mutations

SECONDS = 900
PASSED, FAILED = 0, 1
"""Exit codes of pytest; any other says that the tests did not run."""


def main(words: list[str]) -> int:
    chosen = [each for each in mutations() if not words or any(w in each.name for w in words)]
    if not chosen:
        print("no mutation has a name like that")
        return 2
    verdicts: dict[str, int] = {}
    for number, mutation in enumerate(chosen, 1):
        began = time.monotonic()
        verdict, why = judge(mutation)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        took = time.monotonic() - began
        print(f"[{number}/{len(chosen)}] {verdict:8} {mutation.name} ({took:.0f} s) {why}".rstrip())
        sys.stdout.flush()
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return 0 if set(verdicts) == {"noticed"} else 1


def judge(mutation: Mutation) -> tuple[str, str]:
    """The verdict, and what to know about it."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder)
        copy_tracked(copy)
        try:
            for path, text in mutation.texts().items():
                (copy / path.relative_to(ROOT)).write_text(text)
        except BadMutation as error:
            return "BROKEN", str(error)[:500]
        try:
            tried = _pytest(copy, mutation.tests)
        except subprocess.TimeoutExpired:
            return "noticed", f"no end within {SECONDS} s"
        if tried.returncode == FAILED:
            return "noticed", ""
        if tried.returncode == PASSED:
            return "MISSED", mutation.takes_out
        return "BROKEN", tried.stdout.strip()[-500:]


def _pytest(copy: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    rooms = os.pathsep.join(str(copy / room) for room in ROOMS)
    paths = {"PYTHONPATH": rooms, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command,
        cwd=copy,
        env=os.environ | paths,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def copy_tracked(target: Path) -> None:
    """The files that git tracks, as they stand in the working tree, with what Python has compiled
    of them: a file that a mutation changes has another time, so it is compiled again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, place = ROOT / name, target / name
        if source.is_symlink() or source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)
    folders = {Path(name).parent for name in listed.stdout.split("\0") if name.endswith(".py")}
    for each in folders:
        compiled = ROOT / each / "__pycache__"
        if compiled.is_dir():
            shutil.copytree(compiled, target / each / "__pycache__", dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
