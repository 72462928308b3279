"""Ingest on both ways, in the worker's process and on Spark: posts to a warm node over HTTP.

    python benchmarks/ingest.py [--rows 1000000 …] [--ledger] [--snapshot] [--way process|spark]
        [--workers 1]

A table, each line with the way, the median, and how often it is what PyArrow alone takes for the
same body (parse, write, hash), measured in the same run. Posts of 1 and of 1,000 rows by merge
strategy, one after the other; posts of one row by 32 writers at once, on one dataset and on 32;
Csv of `--rows` rows, appended. `--ledger`: a million rows, half of them known, on ten million.
`--snapshot`: a million rows on a million, a tenth changed. Processor time is told of service and
worker, since others may load the machine: they share it with the clients.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import uvloop

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from nodes import RunningNode, served
from processes import cpu_seconds, own_cpu_seconds

SMALL, POSTS, WARM_UP = (1, 1_000), 10, 3
WRITERS, BURST_S = 32, 8.0
LARGE_POSTS = 3
SENT_BYTES = 1 << 20
MILLION = 1_000_000
MICRO_BATCH_BYTES = {"process": 1 << 40, "spark": 0}
COLUMNS = {"id": "Int64", "at": "Timestamp", "city": "String", "value": "Float64"}
KEYED = {"primaryKey": ["id"]}
MERGES: dict[str, dict[str, Any]] = {
    "Append": {"kind": "Append"},
    "Ledger": {"kind": "Ledger", **KEYED},
    "Snapshot": {"kind": "Snapshot", **KEYED},
    "UpsertStream": {"kind": "UpsertStream", **KEYED},
    "ChangelogStream": {"kind": "ChangelogStream", **KEYED},
}
AIMS_S = {"process": 0.060, "spark": 0.600}
AIMS_POSTS = {"process": 200, "spark": 50}


def pieces(content: bytes) -> Iterator[memoryview]:
    """`httpx` copies what is left of a piece whenever the socket took a part of it."""
    whole = memoryview(content)
    for start in range(0, len(whole), SENT_BYTES):
        yield whole[start : start + SENT_BYTES]


def body(first: int, count: int, *, op: bool = False, changed: int = 0) -> bytes:
    """Rows of Csv with a header; one in `changed` has another value than it would."""
    code = "0," if op else ""
    lines = [
        f"{code}{n},2024-01-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z,city {n % 50},"
        f"{-1.5 if changed and not n % changed else n / 7:.6f}"
        for n in range(first, first + count)
    ]
    return ("op," * op + "id,at,city,value\n" + "\n".join(lines) + "\n").encode()


def by_arrow(content: bytes) -> float:
    """Seconds to parse, write and hash the rows without a node."""
    began = time.perf_counter()
    out = io.BytesIO()
    pq.write_table(pacsv.read_csv(io.BytesIO(content)), out)
    hashlib.sha3_256(out.getvalue()).digest()
    return time.perf_counter() - began


def snapshot(name: str, strategy: str) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    if strategy == "ChangelogStream":
        fields.insert(0, {"name": "op", "type": "Int32"})
    read = {"kind": "Csv", "header": True, "schema": {"fields": fields}}
    merge = MERGES[strategy]
    source = {"kind": "AddPushSource", "sourceName": "default", "read": read, "merge": merge}
    vocab = {"kind": "SetVocab", "eventTimeColumn": "at"}
    content = {"name": name, "kind": "Root", "metadata": [source, vocab]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


class Bench:
    """A node all of whose batches go one way."""

    def __init__(self, way: str, node: RunningNode) -> None:
        self.way, self.node, self.token = way, node, node.token()

    @contextmanager
    def dataset(self, strategy: str, name: str) -> Iterator[Callable[[bytes], float]]:
        """What posts to a new dataset, and gives the seconds."""
        with self.node.http(self.token) as http:
            http.timeout = 3600
            http.post("/datasets", json=snapshot(name, strategy)).raise_for_status()
            yield lambda content: self._post(http, name, content)

    def _post(self, http: httpx.Client, name: str, content: bytes) -> float:
        headers = {
            "content-type": "text/csv",
            "content-length": str(len(content)),
            "prefer": "wait=600",
        }
        began = time.perf_counter()
        answer = http.post(f"/{name}/ingest", content=pieces(content), headers=headers)
        answer.raise_for_status()
        told = dict(answer.json())
        while answer.status_code == 202 and told.get("status") != "succeeded":
            time.sleep(0.05)
            told = http.get(answer.headers["location"]).json()
            if told["status"] in ("failed", "cancelled"):
                raise SystemExit(f"a post failed: {told}")
        ran = told.get("result", told)["ran"]
        if ran["way"] != self.way:
            raise SystemExit(f"it did not run on {self.way}: {ran}")
        return time.perf_counter() - began

    def say(self, case: str, seconds: list[float], floor: float, aim: float | None = None) -> None:
        p50 = statistics.median(seconds)
        judged = "" if aim is None else ("within" if p50 <= aim else f"MISSES {aim:g} s")
        print(
            f"{case:<34} {self.way:<8} p50 {p50:8.3f} s   min {min(seconds):8.3f} s   "
            f"{p50 / floor:7.1f} x Arrow   {judged}",
            flush=True,
        )

    def small(self) -> None:
        for count in SMALL:
            for strategy in MERGES:
                op = strategy == "ChangelogStream"
                with self.dataset(strategy, f"{strategy.lower()}-{count}") as post:
                    bodies = [body(n * count, count, op=op) for n in range(WARM_UP + POSTS)]
                    taken = [post(each) for each in bodies][WARM_UP:]
                floor = statistics.median(map(by_arrow, bodies))
                self.say(f"{strategy}, {count} row(s)", taken, floor, AIMS_S[self.way])

    def large(self, rows: int) -> None:
        posts = LARGE_POSTS if rows <= MILLION else 1
        with self.dataset("Append", f"large-{rows}") as post:
            post(body(0, 1))
            content = body(0, rows)
            spent = cpu_seconds(self.node.process.pid)
            taken = [post(content) for _ in range(posts)]
            spent = cpu_seconds(self.node.process.pid) - spent
        self.say(f"Append, {rows:,} rows", taken, by_arrow(content))
        print(f"{'':<43} {rows * posts / spent:,.0f} rows a second of processors")

    def ledger(self) -> None:
        with self.dataset("Ledger", "ledger-on-ten") as post:
            for number in range(10):
                post(body(number * MILLION, MILLION))
            content = body(9 * MILLION + MILLION // 2, MILLION)
            self.say("Ledger, 1 M on 10 M, half known", [post(content)], by_arrow(content))

    def snapshot(self) -> None:
        with self.dataset("Snapshot", "snapshot-on-one") as post:
            post(body(0, MILLION))
            content = body(0, MILLION, changed=10)
            self.say("Snapshot, 1 M on 1 M, a tenth", [post(content)], by_arrow(content))

    def _spent(self) -> tuple[float, float]:
        """Processor time of service and worker, and of the service alone."""
        service = self.node.process.pid
        return cpu_seconds(service), own_cpu_seconds(service)

    def single_rows(self, datasets: int) -> float:
        """Seconds of processors that a post takes, service and worker together."""
        names = [f"single-{datasets}-{number}" for number in range(datasets)]
        for name in names:
            with self.dataset("Append", name) as post:
                post(body(0, 1))
        uvloop.run(burst(self.node, names, self.token, 2.0))
        spent, own = self._spent()
        began = time.perf_counter()
        took = sorted(uvloop.run(burst(self.node, names, self.token, BURST_S)))
        rate = len(took) / (time.perf_counter() - began)
        spent, own = self._spent()[0] - spent, self._spent()[1] - own
        aim = AIMS_POSTS[self.way]
        print(
            f"{f'1 row, {WRITERS} writers, {datasets} dataset(s)':<34} {self.way:<8} "
            f"{rate:5.0f} posts/s   p50 {statistics.median(took) * 1000:4.0f} ms   "
            f"p99 {took[int(len(took) * 0.99) - 1] * 1000:4.0f} ms   "
            f"processors a post: service {1000 * own / len(took):.1f} ms, "
            f"worker {1000 * (spent - own) / len(took):.1f} ms   "
            f"{'within' if rate >= aim else f'MISSES {aim}/s'}",
            flush=True,
        )
        return spent / len(took)


async def burst(node: RunningNode, names: list[str], token: str, seconds: float) -> list[float]:
    """Seconds of every post that `WRITERS` made within the time, one connection each. They share
    the processors with the node, so their loop is a light one."""
    url = urlsplit(node.url)
    until, took = time.perf_counter() + seconds, []
    content = body(0, 1)

    async def write(number: int) -> None:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        head = (
            f"POST /{names[number % len(names)]}/ingest HTTP/1.1\r\nhost: x\r\n"
            f"authorization: Bearer {token}\r\nprefer: wait=60\r\n"
            f"content-type: text/csv\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write(head.encode() + content)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            told = await reader.readexactly(length)
            if not answer.startswith(b"HTTP/1.1 200") or b'"rowsAdded":1' not in told:
                raise SystemExit(f"a post failed: {answer + told!r}")
            took.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    return took


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rows", type=int, nargs="*", default=[MILLION])
    given.add_argument("--way", choices=MICRO_BATCH_BYTES, nargs="*", default=MICRO_BATCH_BYTES)
    given.add_argument("--ledger", action="store_true")
    given.add_argument("--snapshot", action="store_true")
    given.add_argument("--workers", type=int, default=1, help="how many of the node's own")
    asked = given.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"Python {sys.version.split()[0]} of {sys.base_prefix}")  # how it was built counts
    for way in asked.way:
        setting = {
            "ODF_WORKER_MICRO_BATCH_BYTES": str(MICRO_BATCH_BYTES[way]),
            "ODF_NODE_WORKERS": str(asked.workers),
        }
        with (
            tempfile.TemporaryDirectory() as folder,
            served(Path(folder) / "node", **setting) as node,
        ):
            bench = Bench(way, node)
            bench.small()
            for datasets in (1, WRITERS):
                bench.single_rows(datasets)
            for rows in asked.rows:
                bench.large(rows)
            if asked.ledger:
                bench.ledger()
            if asked.snapshot:
                bench.snapshot()


if __name__ == "__main__":
    main()
