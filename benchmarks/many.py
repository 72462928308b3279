"""How soon a node of many datasets, and a dataset of many blocks, is shown, beside an older commit.

    python benchmarks/many.py [--old d0d15e1e] [--datasets 10000] [--blocks 20000] [--runs 5]

The older commit is built in a worktree of its own and runs on the same packages; each commit makes
both folders of data for itself. `start` is from the start of the process until the
answer to a request for a list of datasets, `page` the first request for the page of the long
dataset after a start, `again` the second one. The runs of both take turns. Times are medians of
the runs, after one that compiles and migrates and is not counted, and after rows of the long
dataset were read once. Ratios are of the processor time of the service, since others may load the
machine.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import httpx
from processes import own_cpu_seconds
from servers import free_port

HERE = Path(__file__).parents[1]
AIMS = {"start": 0.5, "page": 0.4}
SERVE = "from odf_node.cli.main import main; main()"
HTML = {"accept": "text/html"}
MAKE = """
import sys
from pathlib import Path
from odf_protocol.metadata.events import SetDataSchema
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from service import SCHEMA, Service, described, seeded

kind, count, data = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
service = Service(open_node(Settings(data=data)), "")
if kind == "start":
    for number in range(count):
        chain = seeded().add(described(f"dataset {number} of many"), SetDataSchema(schema=SCHEMA))
        service.keep(chain, f"kamu/dataset-{number}")
else:
    chain = seeded().add(SetDataSchema(schema=SCHEMA))
    for number in range(count - 2):
        chain.add_rows(1)
    service.keep(chain, "kamu/many")
service.node.stores.close()
"""


@dataclass(frozen=True)
class Took:
    """Seconds by the clock, and of the processor."""

    wall: float
    cpu: float


@dataclass
class Side:
    """A commit, its copies of the data, and what it took, in seconds, by name."""

    name: str
    root: Path
    data: Path
    took: dict[str, list[Took]] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        rooms = () if self.is_linked else ("app", "protocol", "storage", "workers", "migrations")
        paths = (self.root, *(self.root / room for room in rooms), self.root / "tests" / "support")
        kept = {name: text for name, text in os.environ.items() if name != COMPILES_NOTHING}
        return {**kept, "PYTHONPATH": os.pathsep.join(map(str, paths))}

    @property
    def is_linked(self) -> bool:
        """Whether all code of the commit is imported as `odf_node`."""
        return (self.root / "odf_node").is_dir()

    def code(self, text: str) -> str:
        """A program by the names of the commit."""
        if not self.is_linked:
            return text
        text = text.replace("from odf_node.", "from odf_node.app.")
        return text.replace("from odf_protocol.", "from odf_node.protocol.")

    def python(self, *words: object) -> list[str]:
        return [sys.executable, *map(str, words)]


COMPILES_NOTHING = "PYTHONDONTWRITEBYTECODE"
"""With it a start would read all sources."""


@contextmanager
def older(commit: str, folder: Path) -> Iterator[Path]:
    """A worktree of the commit, until the block ends."""
    git = ["git", "-C", str(HERE), "worktree"]
    subprocess.run([*git, "add", "-q", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


@contextmanager
def started(side: Side, data: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A service without workers; a client of it, and the id of its process."""
    port = free_port()
    words = ["serve", "--port", port, "--data", data, "--workers", "0"]
    process = subprocess.Popen(
        side.python("-c", side.code(SERVE), *words),
        env=side.env,
        cwd=side.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
            while not _listens(port):
                if process.poll() is not None:
                    raise RuntimeError(f"{side.name}: the service ended with {process.returncode}")
                time.sleep(0.01)
            yield client, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def first(client: httpx.Client, path: str, **headers: str) -> None:
    client.get(path, headers=headers).raise_for_status()


def learn(side: Side) -> None:
    """Let a node keep with a dataset what it keeps once rows of it were read."""
    with started(side, side.data / "page") as (client, _):
        first(client, "/many/read?limit=1")
        first(client, "/many", **HTML)


def run(side: Side) -> dict[str, Took]:
    """What each takes, once."""
    began = time.perf_counter()
    with started(side, side.data / "start") as (client, process):
        first(client, "/datasets")
        took = {"start": Took(time.perf_counter() - began, own_cpu_seconds(process))}
    with started(side, side.data / "page") as (client, process):
        first(client, "/system/health")
        for name in ("page", "again"):
            began, spent = time.perf_counter(), own_cpu_seconds(process)
            first(client, "/many", **HTML)
            wall = time.perf_counter() - began
            took[name] = Took(wall, own_cpu_seconds(process) - spent)
    return took


def _median(took: list[Took]) -> Took:
    return Took(*(statistics.median(each) for each in zip(*map(astuple, took), strict=True)))


def compare(now: Side, then: Side, runs: int) -> bool:
    """Print a line for each figure, and whether all are within their aims."""
    for side in (then, now):
        learn(side)
    for number in range(runs + 1):
        for side in (then, now):
            for name, spent in run(side).items():
                if number:
                    side.took.setdefault(name, []).append(spent)
    good = True
    for name in now.took:
        old, new = (_median(side.took[name]) for side in (then, now))
        aim, ratio = AIMS.get(name), new.cpu / old.cpu
        good &= aim is None or ratio <= aim
        told = "" if aim is None else f"; {'within' if ratio <= aim else 'MISSES'} {aim}"
        both = f"{then.name} {old.wall:.2f} s ({old.cpu:.2f}), now {new.wall:.2f} s ({new.cpu:.2f})"
        print(f"{name:8} {both}: {ratio:.2f}, {new.wall / old.wall:.2f} by the clock{told}")
    return good


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--old", default="d0d15e1e")
    given.add_argument("--datasets", type=int, default=10_000)
    given.add_argument("--blocks", type=int, default=20_000)
    given.add_argument("--runs", type=int, default=5)
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as name, older(asked.old, Path(name) / "tree") as tree:
        then = Side(asked.old, tree, Path(name) / "then")
        now = Side("now", HERE, Path(name) / "now")
        for side in (then, now):
            for kind, count in (("start", asked.datasets), ("page", asked.blocks)):
                made = side.python("-c", side.code(MAKE), kind, count, side.data / kind)
                subprocess.run(made, env=side.env, cwd=side.root, check=True)
        print(f"load {os.getloadavg()[0]:.1f}")
        return int(not compare(now, then, asked.runs))


if __name__ == "__main__":
    sys.exit(main())
