"""Memory of a worker and its Spark while a file is polled, by the number of its rows.

    python benchmarks/memory.py [--millions 1 10 100] [--strategy Ledger] [--heap 1g]

A file of Csv (56 bytes a row) is fetched from a folder, appended or merged, all on Spark. A line
for each size: seconds, the most memory that worker, Java and Python processes held together
(shared pages counted once), the heap that the setting gives, and rows and slices as they arrived.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ingest import MERGES
from nodes import RunningNode, served
from processes import descendants, held_bytes

MIB, MILLION = 1 << 20, 1_000_000
LOOKS_S = 0.5
SCHEMA = ["id BIGINT", "at TIMESTAMP", "city STRING", "value DOUBLE"]


def write(path: Path, rows: int) -> None:
    """Rows of which each has a key of its own, in pieces of a million."""
    days = np.datetime64("2024-01-01", "s")
    with path.open("wb") as out:
        for first in range(0, rows, MILLION):
            number = np.arange(first, min(first + MILLION, rows))
            at = pa.array(days + number.astype("timedelta64[s]")).cast(pa.timestamp("ms", "UTC"))
            city = pa.array(np.char.add("city ", (number % 50).astype(str)))
            piece = pa.table({"id": number, "at": at, "city": city, "value": number / 7})
            options = pacsv.WriteOptions(include_header=first == 0, quoting_style="none")
            pacsv.write_csv(piece, out, options)


class Peak:
    """The most memory that the node's workers held while the block ran."""

    def __init__(self, node: RunningNode) -> None:
        self._node, self._ended, self.bytes = node, threading.Event(), 0
        self._looking = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ended.wait(LOOKS_S):
            self.bytes = max(self.bytes, held_bytes(descendants(self._node.process.pid)))

    def __enter__(self) -> Peak:
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._looking.join()


def manifest(name: str, path: Path, strategy: str) -> dict[str, object]:
    source = {
        "kind": "SetPollingSource",
        "fetch": {"kind": "Url", "url": path.as_uri()},
        "read": {"kind": "Csv", "header": True, "schema": SCHEMA},
        "merge": MERGES[strategy],
    }
    time_column = {"kind": "SetVocab", "eventTimeColumn": "at"}
    content = {"name": name, "kind": "Root", "metadata": [source, time_column]}
    return {"kind": "DatasetSnapshot", "version": 1, "content": content}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--millions", type=float, nargs="*", default=(1, 10))
    given.add_argument("--strategy", choices=sorted(MERGES), default="Append")
    given.add_argument("--heap", default="1g")
    asked = given.parse_args()
    print("| rows | file | seconds | most memory | heap | rows arrived |")
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {
            "ODF_WORKER_FETCH_ROOTS": json.dumps([name]),
            "ODF_WORKER_SPARK_DRIVER_MEMORY": asked.heap,
            "ODF_WORKER_MICRO_BATCH_BYTES": "0",
            "ODF_NODE_INGEST_WAIT_S": "7200",
        }
        with served(folder / "node", **settings) as node:
            for millions in asked.millions:
                print(_line(node, folder, int(millions * MILLION), asked), flush=True)


def _line(node: RunningNode, folder: Path, rows: int, asked: argparse.Namespace) -> str:
    path, name = folder / f"rows-{rows}.csv", f"rows-{rows}"
    write(path, rows)
    with node.http(node.token()) as http:
        http.timeout = 7200
        http.post("/datasets", json=manifest(name, path, asked.strategy)).raise_for_status()
        began = time.monotonic()
        with Peak(node) as peak:
            answer = http.post(f"/{name}/refresh", headers={"prefer": "wait=7200"})
        took = time.monotonic() - began
        answer.raise_for_status()
        told = answer.json()
    size = path.stat().st_size
    path.unlink()
    arrived = told.get("rowsAdded", told)
    return (
        f"| {rows:,} | {size / MIB:,.0f} MiB | {took:.1f} | {peak.bytes / MIB:,.0f} MiB |"
        f" {asked.heap} | {arrived} |"
    )


if __name__ == "__main__":
    main()
