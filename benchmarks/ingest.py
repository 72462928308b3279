"""Ingest: seconds from submit to finish on a warm worker, and rows per second of large batches.

    python benchmarks/ingest.py [batches] [rows]

Small batches of 1 000 rows (NdJson) show the latency; one large batch (Csv) the throughput.
Each is printed with its ratio to a limit measured in the same run: for small batches one
bare Spark action (read a staged file, sort, collect), for large ones Arrow alone (parse the
same Csv, write the same Parquet settings). The aim: half of the small batches within 1 s.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from protocol.codec.manifests import from_data
from protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from storage.config import StoreSettings, open_stores
from storage.dataset import Dataset
from storage.stores import Stores
from storage.values import Failed
from tests.workers.datasets import created, ndjson, submit
from workers.engine.spark import SparkOptions, start_spark
from workers.write import parquet_settings

BATCHES = int(sys.argv[1]) if len(sys.argv) > 1 else 20
LARGE_ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
SMALL_ROWS = 1_000
AIM_S = 1.0
STRATEGIES: dict[str, MergeStrategy] = {
    "Append": MergeStrategyAppend(),
    "Ledger": MergeStrategyLedger(primary_key=("k",)),
    "UpsertStream": MergeStrategyUpsertStream(primary_key=("k",)),
    "Snapshot": MergeStrategySnapshot(primary_key=("k",)),
}
CSV = {
    "kind": "Csv",
    "schema": {
        "fields": [
            {"name": "event_time", "type": "Timestamp"},
            {"name": "city", "type": "String"},
            {"name": "k", "type": "Int64"},
            {"name": "v", "type": {"kind": "Option", "inner": "Float64"}},
        ]
    },
}


def rows(start: int) -> list[dict[str, Any]]:
    return [
        {
            "event_time": f"2024-01-01T00:{n // 60:02}:{n % 60:02}Z",
            "k": start + n,
            "city": f"c{n % 7}",
            "v": n / 7,
        }
        for n in range(SMALL_ROWS)
    ]


def large() -> bytes:
    lines = (
        f"2024-01-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z,c{n % 97},{n},{n / 7:.6f}"
        for n in range(LARGE_ROWS)
    )
    return ("\n".join(lines) + "\n").encode()


def run_job(stores: Stores, dataset: Dataset, body: bytes) -> float:
    """Seconds from submit to finish."""
    began = time.perf_counter()
    job = submit(stores, dataset, body)
    while (outcome := stores.jobs.get(job).outcome) is None:
        time.sleep(0.002)
    if isinstance(outcome, Failed):
        raise SystemExit(f"{outcome.error}: {outcome.message}")
    return time.perf_counter() - began


def bare_spark() -> float:
    """Seconds of one warm Spark action on a small staged file."""
    with tempfile.TemporaryDirectory() as folder:
        session = start_spark(SparkOptions(scratch=Path(folder)))
        path = f"{folder}/rows.parquet"
        pq.write_table(pa.Table.from_pylist(rows(0)), path)
        schema = session.read.parquet(path).schema
        taken = []
        for _ in range(12):
            began = time.perf_counter()
            frame = session.read.schema(schema).parquet(path)
            frame.coalesce(1).sortWithinPartitions("event_time", "k").toArrow()
            taken.append(time.perf_counter() - began)
        session.stop()
    return statistics.median(taken[4:])


def bare_arrow(body: bytes) -> float:
    """Seconds to parse the Csv and write one file, in one thread."""
    began = time.perf_counter()
    table = pyarrow.csv.read_csv(
        pa.BufferReader(body),
        read_options=pyarrow.csv.ReadOptions(
            column_names=["event_time", "city", "k", "v"], use_threads=False
        ),
    )
    pq.write_table(table, pa.BufferOutputStream(), **parquet_settings(table.schema))
    return time.perf_counter() - began


def main() -> None:
    limit = bare_spark()
    print(f"limit: one bare Spark action takes {limit:.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        stores = open_stores(StoreSettings(data=Path(folder)))
        began = time.perf_counter()
        worker = subprocess.Popen(
            [sys.executable, "-m", "workers.cli", "--data", folder],
            cwd=Path(__file__).parents[1],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert worker.stderr is not None
        while "worker ready" not in worker.stderr.readline():
            if worker.poll() is not None:
                raise SystemExit("the worker did not start")
        print(f"worker ready after {time.perf_counter() - began:.1f} s")
        try:
            small_batches(stores, limit)
            large_batch(stores)
        finally:
            worker.terminate()
            worker.communicate()
            stores.close()


def small_batches(stores: Stores, limit: float) -> None:
    for number, (name, merge) in enumerate(STRATEGIES.items(), 1):
        dataset = created(stores, number=number, merge=merge)
        taken = [
            run_job(stores, dataset, ndjson(rows(batch * SMALL_ROWS // 2)))
            for batch in range(BATCHES)
        ]
        p50, worst = statistics.median(taken), max(taken)
        print(
            f"{name:13} {SMALL_ROWS} rows: p50 {p50:.3f} s, max {worst:.3f} s, "
            f"{p50 / limit:.1f} bare actions, {'within' if p50 < AIM_S else 'MISSES'} {AIM_S} s"
        )


def large_batch(stores: Stores) -> None:
    body = large()
    limit = bare_arrow(body)
    for number, name in ((11, "Append"), (12, "Ledger")):
        read: ReadStep = from_data(CSV, ReadStep)
        dataset = created(stores, number=number, read=read, merge=STRATEGIES[name])
        taken = run_job(stores, dataset, body)
        print(
            f"{name:13} {LARGE_ROWS} rows ({len(body) >> 20} MiB Csv): {taken:.1f} s, "
            f"{LARGE_ROWS / taken:,.0f} rows/s, {taken / limit:.1f} times Arrow alone"
        )


if __name__ == "__main__":
    print(json.dumps({"batches": BATCHES, "large_rows": LARGE_ROWS}))
    main()
