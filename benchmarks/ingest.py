"""Ingest: seconds from submit to finish on a warm worker, and rows per second of large batches.

    python benchmarks/ingest.py [batches] [rows]     (0 batches: only over HTTP)

Small batches of 1 000 rows (NdJson) show the latency; large ones (Csv, NdJson) the throughput,
through the queue and once more over HTTP. Each is printed with its ratio to a limit measured in
the same run: for small batches one bare Spark action (read a staged file, sort, collect); for large
ones what Arrow alone and DataFusion alone take to parse the same file, write it with the same
settings and hash it twice. Processor time is that of the worker and its JVM, since others may load
the machine. A profile tells where the time of a large batch goes. The aims: half of the small
batches within 1 s, 300 000 rows a second of processor time. `history.py` is about merges.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import httpx
import nodes
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from processes import cpu_seconds

from odf_node.protocol.arrow_digest import digest_of
from odf_node.protocol.codec.manifests import from_data
from odf_node.protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStep,
)
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_node.storage.datasets.node.stores import Stores
from odf_node.storage.stores.ports.values import Failed
from odf_node.workers.engines.spark.session import SparkOptions, start_spark
from odf_node.workers.slices.write import parquet_settings
from tests.workers.datasets import created, ndjson, now, submit, upload

BATCHES = int(sys.argv[1]) if len(sys.argv) > 1 else 20
LARGE_ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
SMALL_ROWS = 1_000
AIM_S = 1.0
AIM_ROWS = 300_000
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


def large_csv() -> bytes:
    lines = (
        f"2024-01-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z,c{n % 97},{n},{n / 7:.6f}"
        for n in range(LARGE_ROWS)
    )
    return ("\n".join(lines) + "\n").encode()


def large_ndjson() -> bytes:
    lines = (
        f'{{"event_time":"2024-01-01T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z",'
        f'"city":"c{n % 97}","k":{n},"v":{n / 7:.6f}}}'
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


def hashed(path: Path) -> None:
    hashlib.sha3_256(path.read_bytes()).digest()
    with pq.ParquetFile(path) as file:
        digest_of(file).finish()


def bare_arrow(kind: str, body: bytes, folder: Path) -> float:
    """Processor seconds to parse the file, write a slice and hash it, in one thread."""
    began = time.process_time()
    if kind == "Csv":
        options = pyarrow.csv.ReadOptions(
            column_names=["event_time", "city", "k", "v"], use_threads=False
        )
        table = pyarrow.csv.read_csv(pa.BufferReader(body), read_options=options)
    else:
        plain = pyarrow.json.ReadOptions(use_threads=False)
        table = pyarrow.json.read_json(pa.BufferReader(body), read_options=plain)
    pq.write_table(table, folder / "arrow.parquet", **parquet_settings(table.schema))
    hashed(folder / "arrow.parquet")
    return time.process_time() - began


def bare_datafusion(kind: str, body: bytes, folder: Path) -> float:
    """The same with DataFusion reading and writing, in as many threads as it likes."""
    import datafusion

    source, target = folder / f"in.{kind.lower()}", folder / "datafusion.parquet"
    source.write_bytes(body)
    began = time.process_time()
    context = datafusion.SessionContext()
    if kind == "Csv":
        frame = context.read_csv(str(source), has_header=False, file_extension=".csv")
    else:
        frame = context.read_json(str(source), file_extension=".ndjson")
    frame.write_parquet(str(target), compression="snappy")
    for path in [target] if target.is_file() else sorted(target.glob("*.parquet")):
        hashed(path)
    return time.process_time() - began


def main() -> None:
    limit = bare_spark()
    print(f"limit: one bare Spark action takes {limit:.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        stores = open_stores(StoreSettings(data=Path(folder)))
        began = time.perf_counter()
        worker = subprocess.Popen(
            [sys.executable, "-m", "odf_node.workers.main", "--data", folder],
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
            bodies = {"Csv": large_csv(), "NdJson": large_ndjson()}
            for kind, body in bodies.items():
                large_batch(stores, kind, body, worker.pid)
            profile(stores, bodies)
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


def source(kind: str) -> dict[str, Any]:
    return {**CSV, "kind": kind}


def large_batch(stores: Stores, kind: str, body: bytes, worker: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        limits = {
            "Arrow": bare_arrow(kind, body, Path(name)),
            "DataFusion": bare_datafusion(kind, body, Path(name)),
        }
    number = 11 if kind == "Csv" else 12
    dataset = created(
        stores, number=number, read=from_data(source(kind), ReadStep), merge=STRATEGIES["Append"]
    )
    cpu = cpu_seconds(worker)
    taken = run_job(stores, dataset, body)
    cpu = cpu_seconds(worker) - cpu
    print(
        f"Append {kind}: {LARGE_ROWS} rows ({len(body) >> 20} MiB) in {taken:.1f} s, "
        f"{cpu:.1f} s of processors; {LARGE_ROWS / taken:,.0f} rows/s by the clock, "
        f"{LARGE_ROWS / cpu:,.0f} by processor time: "
        f"{'within' if LARGE_ROWS / cpu > AIM_ROWS else 'MISSES'} {AIM_ROWS:,}; "
        + ", ".join(f"{cpu / bare:.1f} times {name} alone" for name, bare in limits.items()),
        flush=True,
    )


def profile(stores: Stores, bodies: dict[str, bytes]) -> None:
    """Where the time of a large batch goes, in this process, phase by phase. Needs no Spark."""
    import odf_node.workers.jobs.ingest.run as steps
    import odf_node.workers.slices.write as write
    from odf_node.storage.datasets.merge_state.store import MergeStates
    from odf_node.workers.jobs.work.context import Engines, IngestOptions
    from odf_node.workers.readers.read import open_frame
    from odf_node.workers.slices.frame import Limits

    none: Any = None
    for number, (kind, body) in enumerate(bodies.items(), 21):
        read: ReadStep = from_data(source(kind), ReadStep)
        dataset = created(stores, number=number, read=read, merge=STRATEGIES["Append"])
        spent: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "input"
            path.write_bytes(body)
            began = time.process_time()
            frame = open_frame(read, path, Limits())
            rows = sum(batch.num_rows for batch in frame.batches) if frame else 0
            spent["read"] = time.process_time() - began  # type: ignore[assignment]
            kept = {
                (steps, "read"): "read and order",
                (write, "write_batches"): "write",
                (write, "described"): "hash",
                (steps, "put_slices"): "put",
            }
            originals = {place: getattr(*place) for place in kept}
            for (module, attribute), phase in kept.items():
                setattr(module, attribute, counted(originals[module, attribute], phase, spent))
            try:
                bench = steps.WorkerContext(
                    engines=Engines(session=none, first=none),
                    objects=stores.objects,
                    scratch=Path(name),
                    ingest=IngestOptions(
                        states=MergeStates(Path(name) / "merge-state", max_bytes=1 << 40),
                        micro_batch_bytes=1 << 40,
                    ),
                )
                began = time.process_time()
                steps.run_ingest(dataset, upload(stores, dataset, body), bench, now=now())
                whole = time.process_time() - began
            finally:
                for (module, attribute), original in originals.items():
                    setattr(module, attribute, original)
        spent["read and order"] -= spent["read"]
        spent["other"] = whole - spent.total()  # type: ignore[assignment]
        shares = ", ".join(f"{phase} {seconds / whole:.0%}" for phase, seconds in spent.items())
        print(f"profile {kind}: {whole:.1f} s of processors for {rows} rows: {shares}", flush=True)


def counted(call: Callable[..., Any], phase: str, spent: Counter[str]) -> Callable[..., Any]:
    """The call, its processor time added to the phase."""

    def counting(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        try:
            return call(*given, **named)
        finally:
            spent[phase] += time.process_time() - began  # type: ignore[assignment]

    return counting


def settled(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """The receipt of a post, also of one that takes longer than the node lets it wait."""
    answer.raise_for_status()
    if answer.status_code != 202:
        return dict(answer.json())
    url = answer.headers["location"]
    while (job := client.get(url).json())["status"] in ("waiting", "running"):
        time.sleep(0.1)
    if job["status"] != "succeeded":
        raise SystemExit(f"the batch failed: {job}")
    return dict(job["result"])


def over_http() -> None:
    """One large batch posted to a served node, from the first byte sent to the receipt."""
    body = large_csv()
    with tempfile.TemporaryDirectory() as folder, nodes.served(Path(folder) / "node") as node:
        snapshot = {
            "kind": "DatasetSnapshot",
            "version": 1,
            "content": {
                "name": "large",
                "kind": "Root",
                "metadata": [
                    {
                        "kind": "AddPushSource",
                        "sourceName": "default",
                        "read": CSV,
                        "merge": {"kind": "Append"},
                    }
                ],
            },
        }
        with node.http(node.token()) as client:
            client.timeout = 600
            client.post("/datasets", json=snapshot).raise_for_status()
            headers = {"content-type": "text/csv", "prefer": "wait=600"}
            first = b"2024-01-01T00:00:00Z,x,0,0\n"
            settled(client, client.post("/large/ingest", content=first, headers=headers))
            cpu, began = cpu_seconds(node.process.pid), time.perf_counter()
            told = settled(client, client.post("/large/ingest", content=body, headers=headers))
            taken = time.perf_counter() - began
            if told["rowsAdded"] != LARGE_ROWS:
                raise SystemExit(f"not all rows were added: {told}")
            cpu = cpu_seconds(node.process.pid) - cpu
        print(
            f"Append Csv over HTTP: {LARGE_ROWS} rows in {taken:.1f} s, "
            f"{LARGE_ROWS / taken:,.0f} rows/s by the clock, {LARGE_ROWS / cpu:,.0f} by "
            "processor time of service and worker"
        )


if __name__ == "__main__":
    print(json.dumps({"batches": BATCHES, "large_rows": LARGE_ROWS}))
    if BATCHES:
        main()
    over_http()
