"""Posts to a warm node, from the request to the receipt: 1,000 rows by merge strategy, one after
the other, and single rows of 32 writers at once, on one dataset and on 32.

A node with one worker runs as processes, as `make run` starts it. The limit it is held
against, measured in the same run: the same rows parsed, written as Parquet and hashed by
PyArrow and hashlib in this process, without a node, a queue, Spark or a commit. Single rows are
held against as many bare commits of SQLite, each synced to disk: what one durable change costs.
Processor time is told of service, worker and clients apart, since others may load the machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from nodes import RunningNode, served
from processes import cpu_seconds, own_cpu_seconds

ROWS, POSTS, WARM_UP = 1000, 40, 3
WRITERS, BURST_S = 32, 10.0
ROW = b"id,at,city,value\n1,2024-01-01T00:00:00Z,here,1.5\n"
FIELDS = [
    {"name": "id", "type": "Int64"},
    {"name": "at", "type": "Timestamp"},
    {"name": "city", "type": "String"},
    {"name": "value", "type": {"kind": "Option", "inner": "Float64"}},
]
MERGES = {
    "Append": {"kind": "Append"},
    "Ledger": {"kind": "Ledger", "primaryKey": ["id"]},
    "UpsertStream": {"kind": "UpsertStream", "primaryKey": ["id"]},
}


def batch(number: int) -> bytes:
    """One CSV of new rows."""
    first = number * ROWS
    lines = [
        f"{i},2024-01-01T{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}Z,city {i % 50},{i / 7}"
        for i in range(first, first + ROWS)
    ]
    return ("id,at,city,value\n" + "\n".join(lines) + "\n").encode()


def by_hand(content: bytes) -> float:
    """Seconds to parse, write and hash the rows without a node."""
    began = time.perf_counter()
    out = io.BytesIO()
    pq.write_table(pacsv.read_csv(io.BytesIO(content)), out)
    hashlib.sha3_256(out.getvalue()).digest()
    return time.perf_counter() - began


def snapshot(name: str, merge: dict[str, object]) -> dict[str, object]:
    read = {"kind": "Csv", "header": True, "schema": {"fields": FIELDS}}
    source = {"kind": "AddPushSource", "sourceName": "default", "read": read, "merge": merge}
    vocab = {"kind": "SetVocab", "eventTimeColumn": "at"}
    content = {"name": name, "kind": "Root", "metadata": [source, vocab]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def measure(node: RunningNode, strategy: str, limit: float) -> None:
    name, seconds = f"posts-{strategy.lower()}", []
    with node.http(node.token()) as http:
        http.post("/datasets", json=snapshot(name, MERGES[strategy])).raise_for_status()
        for number in range(WARM_UP + POSTS):
            content = batch(number)
            began = time.perf_counter()
            answer = http.post(
                f"/{name}/ingest", content=content, headers={"content-type": "text/csv"}
            )
            answer.raise_for_status()
            seconds.append(time.perf_counter() - began)
            if answer.json()["rowsAdded"] != ROWS:
                raise SystemExit(f"not all rows were new: {answer.json()}")
    timed = sorted(seconds[WARM_UP:])
    p50, p95 = statistics.median(timed), timed[int(len(timed) * 0.95) - 1]
    print(f"{strategy:<14} p50 {p50:6.3f} s   p95 {p95:6.3f} s   {p50 / limit:6.1f} × by hand")


def bare_commits(folder: Path, count: int = 200) -> float:
    """Commits per second of a small row into SQLite, by one writer, each synced."""
    database = sqlite3.connect(folder / "bare.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE rows (content)")
    began = time.perf_counter()
    for _ in range(count):
        database.execute("INSERT INTO rows VALUES (?)", (ROW,))
    return count / (time.perf_counter() - began)


async def burst(node: RunningNode, names: list[str], token: str, seconds: float) -> list[float]:
    """Seconds of every post that `WRITERS` made within the time, one connection each."""
    url = urlsplit(node.url)
    until, took = time.perf_counter() + seconds, []

    async def write(number: int) -> None:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        path = f"/{names[number % len(names)]}/ingest"
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
            f"content-type: text/csv\r\ncontent-length: {len(ROW)}\r\n\r\n"
        )
        request = head.encode() + ROW
        while time.perf_counter() < until:
            began = time.perf_counter()
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            if not answer.startswith(b"HTTP/1.1 200") or b'"rowsAdded":1' not in body:
                raise SystemExit(f"a post failed: {answer + body!r}")
            took.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    return took


def single_rows(node: RunningNode, datasets: int, limit: float) -> None:
    names = [f"single-{datasets}-{number}" for number in range(datasets)]
    token = node.token()
    with node.http(token) as http:
        for name in names:
            http.post("/datasets", json=snapshot(name, MERGES["Append"])).raise_for_status()
    asyncio.run(burst(node, names, token, 2.0))
    service = node.process.pid
    began, before = time.perf_counter(), _spent(service)
    took = sorted(asyncio.run(burst(node, names, token, BURST_S)))
    rate = len(took) / (time.perf_counter() - began)
    spent = [1000 * (b - a) / len(took) for a, b in zip(before, _spent(service), strict=True)]
    p50, p99 = statistics.median(took), took[int(len(took) * 0.99) - 1]
    print(
        f"1 row, {WRITERS} writers, {datasets:>2} dataset(s)   {rate:6.0f} posts/s   "
        f"p50 {p50 * 1000:4.0f} ms   p99 {p99 * 1000:4.0f} ms   {rate / limit:5.2f} x bare commits"
        f"   of processors a post: service {spent[0]:.1f} ms, worker {spent[1] - spent[0]:.1f} ms, "
        f"clients {spent[2]:.1f} ms"
    )


def _spent(service: int) -> tuple[float, float, float]:
    """Processor seconds of the service, of it with its worker, and of the clients, who are here."""
    return own_cpu_seconds(service), cpu_seconds(service), time.process_time()


def main() -> None:
    limit = statistics.median(by_hand(batch(number)) for number in range(20))
    print(f"{ROWS} rows by hand: {limit * 1000:.1f} ms")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "node") as node:
        for strategy in MERGES:
            measure(node, strategy, limit)
        commits = bare_commits(Path(folder))
        print(f"bare commits of SQLite: {commits:.0f}/s")
        for datasets in (1, WRITERS):
            single_rows(node, datasets, commits)


if __name__ == "__main__":
    main()
