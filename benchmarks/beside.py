"""What requests, starts, posts and pulls take of the processor, also beside another build.

    python benchmarks/beside.py [--beside PYTHON] [--rounds 7] [NAME …]

`--beside` names the Python of another build. Both serve a copy of the same data at the same time
and are asked in turn; each figure is the processor time of a node with all its processes, or of a
command of the build, in milliseconds: the median of the rounds, and the least. The load of the
machine shows less in it than in the clock, and meets both. Answers of both are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import httpx
from benchmarks.commands import cpu_s
from benchmarks.ingest import body, burst, snapshot
from benchmarks.slices import wait_for
from benchmarks.transfer import publish, small_chain
from processes import cpu_seconds
from servers import free_port
from service import Service
from wide_rows import GROUPS, WideRows

from odf_node.service.settings import Settings
from odf_node.service.wiring import open_node

ROWS, SLICES = 1_000_000, 1_000
SMALL_GETS = 2_000
QUERIES = {
    "count": "select count(*) as n from wide",
    "min, max": 'select min("key") as a, max("key") as b from wide',
    "newest": 'select * from wide order by "offset" desc limit 10',
    "point, offset": 'select * from wide where "offset" = 777',
    "point, key": 'select * from wide where "key" = 31676',
    "group by": "select grp, sum(amount) as s from wide group by grp order by grp",
    "join": "select n.amount, count(*) as c from wide w join names n on n.grp = w.grp "
    "where n.key < 100 group by n.amount order by n.amount",
}


@dataclass
class Build:
    """A build of the node, its running service, and the milliseconds it took, by name."""

    python: Path
    data: Path
    token: str
    url: str = ""
    process: int = 0
    took: dict[str, list[float]] = field(default_factory=dict)
    answers: dict[str, object] = field(default_factory=dict)

    @property
    def command(self) -> str:
        return str(self.python.with_name("odf-node"))

    @property
    def http(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=120)

    def keep(self, name: str, seconds: float) -> None:
        self.took.setdefault(name, []).append(1000 * seconds)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--beside", type=Path)
    given.add_argument("--rounds", type=int, default=7)
    given.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASURED))
    asked = given.parse_args()
    pythons = [Path(sys.executable), *([asked.beside] if asked.beside else [])]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        made = Path(folder) / "made"
        token, paths = _made(made)
        builds = [Build(each, Path(folder) / str(at), token) for at, each in enumerate(pythons)]
        for build in builds:
            shutil.copytree(made, build.data)
            stack.enter_context(_serving(build))
        print("| ms of processors | here: median, least | beside | ratio: medians, least |")
        print("|---|---|---|---|")
        for name in asked.names or MEASURED:
            for at in range(asked.rounds + 1):
                for build in builds if at % 2 else reversed(builds):
                    MEASURED[name](build, paths)
                if not at:
                    for build in builds:
                        build.took.clear()
            _show(builds)


def _show(builds: list[Build]) -> None:
    for name in builds[0].took:
        both = [(statistics.median(each.took[name]), min(each.took[name])) for each in builds]
        told = " | ".join(f"{middle:.2f}, {least:.2f}" for middle, least in both)
        (middle, least), *others = both
        for other, fewest in others:
            told += f" | {middle / other:.2f}, {least / fewest:.2f}"
        same = all(each.answers.get(name) == builds[0].answers.get(name) for each in builds)
        print(f"| {name} | {told} |{'' if same else ' OTHER ANSWER'}", flush=True)
    for build in builds:
        build.took.clear()


def _made(data: Path) -> tuple[str, list[str]]:
    """Data for both builds: a token of theirs, and paths of small blocks."""
    service = Service(open_node(Settings(data=data)), "")
    stores = service.node.stores
    WideRows(stores, "kamu/wide", rows=ROWS, slices=SLICES)
    WideRows(stores, "kamu/names", rows=GROUPS, slices=1)
    token = service.token()
    stores.close()
    here = Build(Path(sys.executable), data, token)
    with _serving(here), tempfile.TemporaryDirectory() as folder:
        hashes = small_chain(Path(folder) / "small")
        publish(Path(folder) / "small", here.url, token)
    return token, [f"/foo/blocks/{name}" for name in hashes]


@contextmanager
def _serving(build: Build, workers: int = 1) -> Iterator[None]:
    port = free_port()
    words = [build.command, "serve", "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(
        [*words, "--data", str(build.data)],
        cwd=build.data.parent,
        env={"PATH": "/usr/bin:/bin", "ODF_WORKER_WARM_UP": "false"},  # Spark would count,
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


@contextmanager
def _spending(build: Build, name: str, times: int = 1) -> Iterator[None]:
    """Keep what the node spends until the block ends, for each of so many requests."""
    before = cpu_seconds(build.process)
    yield
    build.keep(name, (cpu_seconds(build.process) - before) / times)


# --- what is measured -------------------------------------------------------------------------


def starts(build: Build, _: list[str]) -> None:
    """Another service of the build over an own folder, until its first answer."""
    other = Build(build.python, build.data.with_name(build.data.name + "-start"), "")
    other.data.mkdir(exist_ok=True)
    with _serving(other, workers=0):
        build.keep("start to the first answer", cpu_seconds(other.process))


def gets(build: Build, paths: list[str]) -> None:
    host, _, port = build.url.removeprefix("http://").partition(":")
    for name, asked in (("GET of refs/head", ["/foo/refs/head"]), ("GET of a block", paths)):
        with (
            socket.create_connection((host, int(port))) as link,
            link.makefile("rb") as answers,
            _spending(build, name, SMALL_GETS),
        ):
            for at in range(SMALL_GETS):
                path = asked[at % len(asked)]
                link.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                length = 0
                while (line := answers.readline()) != b"\r\n":
                    if found := re.match(rb"(?i)content-length: (\d+)", line):
                        length = int(found[1])
                answers.read(length)


def queries(build: Build, _: list[str]) -> None:
    with build.http as http:
        for name, text in QUERIES.items():
            with _spending(build, f"query: {name}", 3):
                for _again in range(3):
                    answer = http.post("/query", json={"query": text, "limit": 10_000})
            answer.raise_for_status()
            build.answers[f"query: {name}"] = answer.json()["output"]["data"]


def pages(build: Build, _: list[str]) -> None:
    with build.http as http:
        for name, path in (("page of a dataset", "/wide"), ("home", "/"), ("tail", "/wide/tail")):
            with _spending(build, name, 5):
                for _again in range(5):
                    http.get(path, headers={"accept": "text/html"}).raise_for_status()


def posts(build: Build, _: list[str]) -> None:
    with build.http as http:
        made = http.post("/datasets", json=snapshot("posted", "Append"))
        assert made.status_code in (201, 409), made.text
    node = type("Node", (), {"url": build.url})
    with _spending(build, "burst"):
        took = asyncio.run(burst(node, ["posted"], build.token, 3.0))
    build.keep("a post of a row, 32 writers", build.took.pop("burst")[-1] / 1000 / len(took))


def loads(build: Build, _: list[str]) -> None:
    with build.http as http:
        made = http.post("/datasets", json=snapshot("loaded", "Append"))
        assert made.status_code in (201, 409), made.text
        headers = {"content-type": "text/csv", "prefer": "wait=60"}
        with _spending(build, "CSV of 100,000 rows"):
            http.post("/loaded/ingest", content=LARGE, headers=headers).raise_for_status()


def pulls(build: Build, _: list[str]) -> None:
    source, target = f"odf+{build.url}/foo", str(build.data.with_name(build.data.name + "-pulled"))
    with _spending(build, "pull of nothing new: node"):
        build.keep("pull of nothing new: command", cpu_s([build.command, "pull", source, target]))


LARGE = body(0, 100_000)
MEASURED: dict[str, Callable[[Build, list[str]], None]] = {
    "starts": starts,
    "gets": gets,
    "queries": queries,
    "pages": pages,
    "pulls": pulls,
    "posts": posts,
    "loads": loads,
}

if __name__ == "__main__":
    main()
