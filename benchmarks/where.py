"""Where batches run: jobs of Spark and rows that pass it, by strategy, size and threshold.

    python benchmarks/where.py [--rows 1 1000 …] [--threshold default 0]

A table for each threshold (`ODF_WORKER_MICRO_BATCH_BYTES`; 0: no batch runs in the process): a
line for each strategy and size; first batch and following one, each with the number of Spark's
jobs and its rows that passed Spark. Nothing is timed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.ingest import MERGES, body, pieces, snapshot
from nodes import served

ROWS = (1, 1_000, 100_000, 1_000_000)
WAIT = {"content-type": "text/csv", "prefer": "wait=1800"}


def ran(http: httpx.Client, name: str, content: bytes) -> dict[str, Any]:
    """Where a batch ran, as its receipt tells."""
    headers = {**WAIT, "content-length": str(len(content))}
    answer = http.post(f"/{name}/ingest", content=pieces(content), headers=headers)
    answer.raise_for_status()
    told = answer.json()
    return dict(told.get("result", told)["ran"])


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rows", type=int, nargs="*", default=ROWS)
    given.add_argument("--threshold", nargs="*", default=("default", "0"))
    asked = given.parse_args()
    for threshold in asked.threshold:
        setting = {} if threshold == "default" else {"ODF_WORKER_MICRO_BATCH_BYTES": threshold}
        setting["ODF_NODE_INGEST_WAIT_S"] = "1800"
        print(f"\n| threshold: {threshold} | rows | first batch | following batch |")
        print("|---|---|---|---|")
        with tempfile.TemporaryDirectory() as name, served(Path(name) / "node", **setting) as node:
            for strategy in MERGES:
                for rows in asked.rows:
                    print(_line(node.http(node.token()), strategy, rows), flush=True)


def _line(http: httpx.Client, strategy: str, rows: int) -> str:
    """Two batches of other rows each, to a dataset of their own."""
    http.timeout = 3600
    name = f"{strategy.lower()}-{rows}"
    with http:
        http.post("/datasets", json=snapshot(name, strategy)).raise_for_status()
        op = strategy == "ChangelogStream"
        both = [ran(http, name, body(at, rows, op=op)) for at in (0, rows)]
    told = (
        f"{each['sparkJobs']} jobs, {rows if each['way'] == 'spark' else 0:,} rows" for each in both
    )
    return f"| {strategy} | {rows:,} | {' | '.join(told)} |"


if __name__ == "__main__":
    main()
