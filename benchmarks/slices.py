"""What a thousand small slices take: verify, smart and simple pull, Delta Sharing, and questions.

    python benchmarks/slices.py [--beside PYTHON] [--slices 1000] [--rounds 3] [NAME …]

The dataset has slices of ten rows, as a dataset has whose rows are posted a few at a time. Each
line is the processor time of all processes concerned (the client's and the node's with their
children), since others may load the machine, and by the clock. `--beside` names the Python of
another build; both take turns in the same run, each on its own copy of the data, and each line has
the ratio to it. The last column is the ratio to the peer that is named: what a user would do
instead, in one process of its own.

    verify            beside SHA3-256 over the same files
    pull              by the smart protocol, beside copying the files with `cp -r` and `sync`
    simple pull       by the simple protocol, one request a block and an object, beside the same
    sharing           the first list of a table's files by Delta Sharing, with its rows taken back
    taken back        the same of a table with a row taken back from each slice
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import httpx
from servers import free_port

HERE = Path(__file__).parents[1]
TICK = os.sysconf("SC_CLK_TCK")
MAKE = """
import sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from odf_protocol.metadata.events import SetDataSchema
from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node
from service import SCHEMA, Service, described, parquet_rows, seeded

data, slices, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
service = Service(open_node(Settings(data=data)), "")
rows = [parquet_rows(10 * number, 10) for number in range(slices)]
firsts = [pq.read_table(pa.BufferReader(each)).slice(0, 1) for each in rows]
gone = pa.concat_tables(firsts)
gone = gone.set_column(0, "offset", pa.array(range(10 * slices, 11 * slices), pa.int64()))
gone = gone.set_column(1, "op", pa.array([1] * slices, pa.int32()))
sink = pa.BufferOutputStream()
pq.write_table(gone, sink)
names = ["many", *(f"{kind}-{at}" for kind in ("shared", "back") for at in range(rounds))]
for name in names:
    chain = seeded().add(described(), SetDataSchema(schema=SCHEMA))
    for each in rows:
        chain.add_slice(each, 10)
    if name.startswith("back"):
        chain.add_slice(sink.getvalue().to_pybytes(), slices)
    service.keep(chain, f"kamu/{name}")
print(service.token())
service.node.stores.close()
"""
SHARE = """
import sys, urllib.request
headers = {"authorization": f"Bearer {sys.argv[2]}", "content-type": "application/json"}
headers["delta-sharing-capabilities"] = "responseformat=delta;readerfeatures=deletionvectors"
urllib.request.urlopen(urllib.request.Request(sys.argv[1], b"{}", headers)).read()
"""
HASH = """
import hashlib, sys
from pathlib import Path
for path in Path(sys.argv[1]).rglob("*"):
    if path.is_file():
        hashlib.sha3_256(path.read_bytes()).digest()
"""


@dataclass
class Took:
    """Seconds by the clock, and of the processor."""

    wall: float
    cpu: float


@dataclass
class Build:
    """A build of the node, its running service, and what it took, by name."""

    python: Path
    work: Path
    token: str = ""
    url: str = ""
    process: int = 0
    took: dict[str, list[Took]] = field(default_factory=dict)

    @property
    def node(self) -> str:
        return str(self.python.with_name("odf-node"))

    def measured(self, name: str, words: list[str]) -> None:
        """Run a program to its end, and keep what it and the service took."""
        began, spent = time.perf_counter(), _spent(self.process)
        client = _run(words)
        wall = time.perf_counter() - began
        took = Took(wall, client + _spent(self.process) - spent)
        self.took.setdefault(name, []).append(took)

    def median(self, name: str) -> Took:
        took = self.took[name]
        return Took(
            statistics.median(each.wall for each in took),
            statistics.median(each.cpu for each in took),
        )


def _run(words: list[str]) -> float:
    """The processor time of a process and its children. Raises if it fails."""
    before = os.times()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr[-500:]}")
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def _spent(process: int) -> float:
    """The processor time so far of a process, of its children, and of those that have ended."""
    total = 0.0
    waiting = [process]
    while waiting:
        at = waiting.pop()
        try:
            stat = Path(f"/proc/{at}/stat").read_text().rpartition(")")[2].split()
            children = Path(f"/proc/{at}/task").glob("*/children")
            waiting += [int(word) for each in children for word in each.read_text().split()]
        except OSError:
            continue
        total += sum(map(int, stat[11:15])) / TICK
    return total


@contextmanager
def serving(build: Build) -> Iterator[None]:
    """A node of the build over its data, without workers, until the block ends."""
    port = free_port()
    words = [build.node, "serve", "--port", str(port), "--workers", "0"]
    process = subprocess.Popen(
        [*words, "--data", str(build.work / "node")],
        cwd=build.work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    build.url, build.process = f"http://127.0.0.1:{port}", process.pid
    try:
        wait_for(build.url, process)
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            httpx.get(url + "/system/health", timeout=60).raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the service ended with {process.returncode}")


# --- what is measured -------------------------------------------------------------------------


def verify(build: Build) -> None:
    build.measured("verify", [build.node, "verify", str(_folder(build))])


def hash_files(build: Build) -> None:
    build.measured("peer of verify", [sys.executable, "-c", HASH, str(_folder(build))])


def pull(build: Build) -> None:
    _pull(build, "pull", f"odf+{build.url}/many")


def simple_pull(build: Build) -> None:
    _pull(build, "simple pull", f"{build.url}/many")


def share(build: Build) -> None:
    _share(build, "sharing", "shared")


def share_taken_back(build: Build) -> None:
    _share(build, "taken back", "back")


def _share(build: Build, name: str, kind: str) -> None:
    table = f"{kind}-{len(build.took.get(name, []))}"  # each is asked for the first time
    url = f"{build.url}/delta-sharing/shares/kamu/schemas/default/tables/{table}/query"
    build.measured(name, [sys.executable, "-c", SHARE, url, build.token])


def copy(build: Build) -> None:
    target = build.work / "copy"
    shutil.rmtree(target, ignore_errors=True)
    script = f"cp -r {_folder(build)} {target} && sync -f {target}"
    build.measured("peer of pull", ["sh", "-c", script])


def _pull(build: Build, name: str, source: str) -> None:
    target = build.work / "pulled"
    shutil.rmtree(target, ignore_errors=True)
    build.measured(name, [build.node, "pull", source, str(target)])


def _folder(build: Build) -> Path:
    """A dataset of the slices alone in the store of the node."""
    found = (path.parent.parent for path in (build.work / "node").rglob("refs/head"))
    return min(found, key=lambda each: len(list((each / "data").iterdir())))


MEASURED: dict[str, tuple[Callable[[Build], None], Callable[[Build], None] | None]] = {
    "verify": (verify, hash_files),
    "pull": (pull, copy),
    "simple pull": (simple_pull, copy),
    "sharing": (share, None),
    "taken back": (share_taken_back, None),
}
"""By name: what the node does, and its peer if there is one."""


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--beside", type=Path)
    given.add_argument("--slices", type=int, default=1000)
    given.add_argument("--rounds", type=int, default=3)
    given.add_argument("names", nargs="*", metavar="NAME")
    asked = given.parse_args()
    names = asked.names or list(MEASURED)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        pythons = [Path(sys.executable), *([asked.beside] if asked.beside else [])]
        builds = [Build(python, Path(folder) / str(at)) for at, python in enumerate(pythons)]
        made = Path(folder) / "made"
        env = {**os.environ, "PYTHONPATH": str(HERE / "tests" / "support")}
        words = [sys.executable, "-c", MAKE, str(made), str(asked.slices), str(asked.rounds)]
        done = subprocess.run(words, check=True, cwd=HERE, env=env, stdout=subprocess.PIPE)
        for build in builds:
            shutil.copytree(made, build.work / "node")
            build.token = done.stdout.decode().split()[-1]
            stack.enter_context(serving(build))
        for _ in range(asked.rounds):
            for name in names:
                for build in builds:
                    MEASURED[name][0](build)
                if (peer := MEASURED[name][1]) is not None:
                    peer(builds[0])
        _show(builds, names)


def _show(builds: list[Build], names: list[str]) -> None:
    print("| | here: processor, clock | beside | ratio to it | to its peer, by the clock |")
    print("|---|---|---|---|---|")
    for name in names:
        here = builds[0].median(name)
        name_of_peer = "peer of " + name.removeprefix("simple ")
        peer = builds[0].median(name_of_peer) if name_of_peer in builds[0].took else None
        there = builds[1].median(name) if len(builds) > 1 else None
        beside = "– | –"
        if there is not None:
            beside = f"{there.cpu:.2f} s, {there.wall:.2f} s | {here.cpu / there.cpu:.2f}"
        told = f"{here.cpu:.2f} s, {here.wall:.2f} s | {beside} | "
        told += "–" if peer is None else f"{here.wall / peer.wall:.1f}"
        print(f"| {name} | {told} |")


if __name__ == "__main__":
    main()
