"""Posts of 1,000 rows to a warm node, from the request to the receipt, by merge strategy.

A node with one worker runs as processes, as `make run` starts it. The limit it is held
against, measured in the same run: the same rows parsed, written as Parquet and hashed by
PyArrow and hashlib in this process, without a node, a queue, Spark or a commit.
"""

from __future__ import annotations

import hashlib
import io
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from nodes import RunningNode, served

ROWS, POSTS, WARM_UP = 1000, 40, 3
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


def main() -> None:
    limit = statistics.median(by_hand(batch(number)) for number in range(20))
    print(f"{ROWS} rows by hand: {limit * 1000:.1f} ms")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "node") as node:
        for strategy in MERGES:
            measure(node, strategy, limit)


if __name__ == "__main__":
    main()
