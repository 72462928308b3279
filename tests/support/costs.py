"""What tests cost: processor seconds of the process and its children, for `--costs FILE`.

Unlike the time on a clock they say the same on a machine that does other things. A line of JSON
for each phase of a test, each fixture that is made, and the collection in each process; `python
tests/support/costs.py FILE` adds them up.

A process that outlives its killed parent is counted as long as it lives: when it ends, the kernel
tells its time to nobody here. So of tests that kill, only the whole file tells something, roughly.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from processes import cpu_seconds

SHOWN = 40


class Costs:
    """Writes what it measures to a file that all processes of a run share."""

    def __init__(self, file: Path):
        self.file = file
        self.begun = _spent()
        self.began = time.monotonic() - time.process_time()

    def tell(self, what: str, name: str, spent: float, wall: float) -> None:
        line = json.dumps([what, name, round(spent, 4), round(wall, 4)]) + "\n"
        with self.file.open("a") as told:
            told.write(line)

    def _measured(self, what: str, name: str) -> Generator[None, Any, Any]:
        spent, wall = _spent(), time.monotonic()
        try:
            return (yield)
        finally:
            self.tell(what, name, _spent() - spent, time.monotonic() - wall)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        return (yield from self._measured("collection", f"process {os.getpid()}"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measured("setup", item.nodeid))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measured("call", item.nodeid))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measured("teardown", item.nodeid))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)  # a part of the phase in which its test is made ready
        name = f"{fixturedef.argname} ({fixturedef.scope}) of {fixturedef.baseid or 'pytest'}"
        return (yield from self._measured("fixture", name))

    def pytest_unconfigure(self) -> None:
        self.tell("process", f"process {os.getpid()}", _spent(), time.monotonic() - self.began)


def _spent() -> float:
    """Of this process and of all it began, also of those that still run, as Spark does."""
    return cpu_seconds(os.getpid())


def _table(title: str, rows: dict[str, list[float]]) -> None:
    print(f"\n{title}: {sum(r[0] for r in rows.values()):.0f} s, of {len(rows)} these most")
    print(f"{'processor':>10} {'wall':>8} {'times':>6}")
    for name, (spent, wall, times) in sorted(rows.items(), key=lambda r: -r[1][0])[:SHOWN]:
        print(f"{spent:10.2f} {wall:8.2f} {times:6.0f} {name}")


def summed(file: Path) -> dict[str, dict[str, list[float]]]:
    """Processor seconds, wall seconds and how often: of files, tests, fixtures and processes."""
    sums: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    for line in file.read_text().splitlines():
        what, name, spent, wall = json.loads(line)
        of_a_test = what in ("setup", "call", "teardown")
        places = [("files", name.split("::")[0]), ("tests", name)] if of_a_test else [(what, name)]
        for table, row in places:
            for at, more in enumerate((spent, wall, what != "setup" and what != "teardown")):
                sums[table][row][at] += more
    return sums


if __name__ == "__main__":
    for title, rows in summed(Path(sys.argv[1])).items():
        _table(title, rows)
