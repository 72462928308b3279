"""What commands and imports take before they do anything: processor time, and modules loaded.

    python benchmarks/commands.py [--beside PYTHON] [--rounds 7]

`--beside` names the Python of another build; both take turns in the same run, and each line has
the ratio to it. The limits are `--version`, which only prints, and `import pyarrow`. Medians of the
rounds, in seconds of processor time, since others may load the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(sys.executable)
HELPS = ("verify", "read", "sql", "pull", "publish", "serve")
COMMANDS = {"--version": ["--version"], **{f"{one} --help": [one, "--help"] for one in HELPS}}
IMPORTS = {
    "import pyarrow": "import pyarrow",
    "import odf_node": "import odf_node",
    "import odf_node; odf_node.open": "import odf_node; odf_node.open",
}


def cpu_s(words: list[str]) -> float:
    """Seconds of processor time of one process."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words} ended with code {process.returncode}")
    return used.ru_utime + used.ru_stime


def words_of(python: Path) -> dict[str, list[str]]:
    node = str(python.with_name("odf-node"))
    return {name: [node, *words] for name, words in COMMANDS.items()} | {
        name: [str(python), "-c", code] for name, code in IMPORTS.items()
    }


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--beside", type=Path)
    given.add_argument("--rounds", type=int, default=7)
    asked = given.parse_args()
    builds = [HERE, *([asked.beside] if asked.beside else [])]
    print("| | here | to its limit | beside | ratio |\n|---|---|---|---|---|")
    limits: dict[bool, float] = {}
    for name in [*COMMANDS, *IMPORTS]:
        took: dict[Path, list[float]] = {build: [] for build in builds}
        for _ in range(asked.rounds):
            for build in builds:
                took[build].append(cpu_s(words_of(build)[name]))
        here, *others = (statistics.median(took[build]) for build in builds)
        limit = limits.setdefault(name in COMMANDS, here)
        told = f"{others[0]:.2f} | {here / others[0]:.2f}" if others else "– | –"
        print(f"| {name} | {here:.2f} | {here / limit:.1f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
