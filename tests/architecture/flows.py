"""How many files a reader opens to follow each of the flows, and how many are run by it.

    PYTHONPATH=.:tests/support python tests/architecture/flows.py [--list | --json]

A reader opens the files that DEVELOPING.md names in the flow: those that have the data in hand.
To count those that run, service, worker and client run in threads of this process, each flow is
played once before it is counted, and a file counts if one of its functions was called. The process
of a query reports its files, too; those that read rows or check received slices are not seen into.
`RUN` is a ratchet: a flow may run no more files than that, and whoever makes it fewer lowers it.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import tempfile
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from service import Service, serving
from tests.workers.datasets import created
from tests.workers.derivatives import derivative, node_of

from odf_node.client.nodes.remotes import Location
from odf_node.client.transfer import sync
from odf_protocol.identity import DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.job_payloads import transform_job
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.verify.run import FolderSource, verify_chain
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import Visibility
from odf_workers.program.loop import Worker

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "protocol", "storage", "workers")
QUERY = 'select event_time, id, n from "rows-1"'


@dataclass(frozen=True)
class Walk:
    """A flow as DEVELOPING.md tells it: under which heading, and how many files it may name."""

    heading: str
    most: int | None = None

    def files(self) -> list[str]:
        """As they are named, some without their folder."""
        text = (ROOT / "DEVELOPING.md").read_text()
        told = text.split(f"### {self.heading}\n", 1)[1].split("\n##", 1)[0]
        return sorted(set(re.findall(r"`([\w/]+\.py)`", told)))


WALKS = {
    "pulled block": Walk("A block is pulled", 20),
    "pushed object": Walk("An object is pushed", 12),
    "posted rows": Walk("Rows are posted", 25),
    "transform input": Walk("A derivative is computed"),
    "verify": Walk("A dataset is verified", 14),
}
RUN = {
    "pulled block": 80,
    "pushed object": 42,
    "posted rows": 125,
    "transform input": 105,
    "verify": 55,
    "query": 120,
    "page": 118,
    "tail": 80,
}
"""Most files that a flow may run. Some run now and then: each limit is a few above what is seen."""
OF_QUERIES = """
import importlib, mmap, sys
from odf_storage.runtime import nursery
path, module = sys.argv[1:]
with open(path, "r+b") as file:
    shared = mmap.mmap(file.fileno(), 0)
loaded = importlib.import_module(module)
real = loaded.answer
def answer(connection):
    seen = set()
    def look(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename not in seen:
            seen.add(code.co_filename)
            text = "\\n".join(seen).encode()
            shared[1 : 1 + len(text)] = text
            shared[0] = 1
    sys.setprofile(look)
    real(connection)
loaded.answer = answer
nursery.main(module, 1)
"""
"""The program that forks a process for each query, which writes the files it ran into a file, each
when it is first run: the process may be ended as soon as it has answered."""


class _Beside:
    """What the process of a query ran."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(1 << 18))
        self._path = path
        self.command = (
            sys.executable,
            "-P",
            "-c",
            OF_QUERIES,
            str(path),
            "odf_workers.query.process",
        )

    def files(self) -> list[str]:
        """Of the last query, once, which was answered."""
        for _ in range(1_200):
            content = self._path.read_bytes()
            if content[0]:
                with self._path.open("r+b") as file:
                    file.write(bytes(len(content)))
                return content[1:].rstrip(b"\0").decode().split("\n")
            time.sleep(0.05)
        raise SystemExit("the process of a query did not say what it ran")


class Called:
    """Files of ours whose functions were called while somebody looks."""

    def __init__(self, folder: Path) -> None:
        self._inside = {f"{ROOT / room}/": room for room in ROOMS}
        self.beside = _Beside(folder / "beside")
        self._seen: set[types.CodeType] = set()
        self.looking = False

    def __call__(self, frame: types.FrameType, event: str, _: Any) -> None:
        if self.looking and event == "call":
            self._seen.add(frame.f_code)

    @contextmanager
    def look(self) -> Iterator[set[str]]:
        self._seen.clear()
        files: set[str] = set()
        self.looking = True
        try:
            yield files
        finally:
            self.looking = False
        files |= self.ours({each.co_filename for each in self._seen if each.co_name != "<module>"})

    def ours(self, names: Iterable[str]) -> set[str]:
        return {
            f"{room}/{name.removeprefix(prefix)}"
            for name in names
            for prefix, room in self._inside.items()
            if name.startswith(prefix)
        }


class Flows:
    """The flows on one node with one root and one derivative."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.folder, self.service = folder, service
        self.token = service.token()
        self.http = service.http(self.token)
        self.stores = open_stores(StoreSettings(data=folder / "node"), migrate=False, repair=False)
        self.root = created(self.stores)
        self.stores.set_visibility(self.root.id, Visibility.PUBLIC)
        self.worker = Worker(
            stores=self.stores,
            context=node_of(self.stores, _made(folder / "scratch")),
            name="flows",
            lease=timedelta(seconds=30),
            longest_pause_s=0.05,
        )
        self.number = 0
        derivative(self.stores, "tens", [self.root], QUERY)

    def posted_rows(self) -> None:
        self.number += 1
        line = json.dumps({"event_time": "2024-01-01T00:00:00Z", "id": "x", "n": self.number})
        headers = {"content-type": "application/x-ndjson"}
        answered = threading.Event()

        def work() -> None:
            while not answered.wait(0.05):
                self.worker.work(once=True)

        beside = threading.Thread(target=work)
        beside.start()
        answer = self.http.post("/rows-1/ingest", content=line + "\n", headers=headers)
        answered.set()
        beside.join()
        _check(answer)

    def pulled_block(self) -> None:
        source = Location.parse(f"odf+{self.service.url}/rows-1")
        sync.pull(source, Location.parse(str(self.folder / "pulled")), token=self.token)

    def pushed_object(self) -> None:
        self.number += 1
        content = b"object %d" % self.number
        _check(self.http.put(f"/rows-1/data/{Multihash.of(content)}", content=content))

    def transform_input(self) -> None:
        tens = self.stores.dataset(DatasetRef.parse("kamu/tens"))
        self.stores.jobs.submit(transform_job.job_of(tens.id, transform_job.TransformPayload()))
        self.worker.work(once=True)

    def verify(self) -> None:
        found = verify_chain(FolderSource(FolderObjects(self.folder / "pulled")))
        if found.problems:
            raise SystemExit(f"what was pulled is damaged: {found.problems[0]}")

    def query(self) -> None:
        _check(self.http.post("/query", json={"query": 'select count(*) as n from "rows-1"'}))

    def page(self) -> None:
        answer = self.http.get("/rows-1", headers={"accept": "text/html"}, follow_redirects=True)
        if "text/html" not in answer.headers["content-type"]:
            raise SystemExit(f"{answer.request.url} is no page")
        _check(answer)

    def tail(self) -> None:
        _check(self.http.get("/rows-1/tail"))

    def plays(self) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
        """By name: what has to be done before, and the flow itself."""
        return {
            "pulled block": (self.posted_rows, self.pulled_block),
            "pushed object": (_nothing, self.pushed_object),
            "posted rows": (_nothing, self.posted_rows),
            "transform input": (self.posted_rows, self.transform_input),
            "verify": (_nothing, self.verify),
            "query": (_nothing, self.query),
            "page": (_nothing, self.page),
            "tail": (_nothing, self.tail),
        }


def _nothing() -> None:
    """Nothing has to be done before."""


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _check(answer: httpx.Response) -> None:
    if answer.status_code not in (200, 201, 202):
        raise SystemExit(f"{answer.request.url}: {answer.status_code} {answer.text}")


def files_of_flows(folder: Path) -> dict[str, set[str]]:
    called = Called(folder)
    threading.setprofile(called)
    sys.setprofile(called)
    found: dict[str, set[str]] = {}
    try:
        beside = {"follow_inputs": False, "log_rest_s": 3600.0}  # no part of a post
        with serving(folder / "node", **beside) as service:
            service.node.queries.nursery.command = called.beside.command
            flows = Flows(service, folder)
            for before, flow in flows.plays().values():
                before()
                flow()
            called.beside.files()
            for name, (before, flow) in flows.plays().items():
                before()
                with called.look() as files:
                    flow()
                found[name] = files
                if name == "query":
                    found[name] |= called.ours(called.beside.files())
            flows.stores.close()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--list", action="store_true", help="name the files, too; * is opened")
    reader.add_argument("--json", action="store_true", help="print the number of files by flow")
    given = reader.parse_args()
    listed = given.list
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        found = files_of_flows(Path(folder))
    if given.json:
        print(json.dumps({name: len(files) for name, files in found.items()}))
        return 0
    for name, files in found.items():
        rooms = Counter(file.partition("/")[0] for file in files)
        parts = ", ".join(f"{count} in {room}" for room, count in sorted(rooms.items()))
        walk = WALKS[name].files() if name in WALKS else []
        opened = f"{len(walk):3} opened" if walk else ""
        print(f"{name:16} {opened:10} {len(files):4} run: {parts}")
        for file in sorted(files) if listed else ():
            opened = any(f"/{file}".endswith(f"/{one}") for one in walk)
            print(f"  {'*' if opened else ' '} {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
