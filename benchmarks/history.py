"""Does history matter? A million rows merged into a million old ones, and into ten million.

    python benchmarks/history.py [new rows] [old rows, fewer] [old rows, more]

Ledger: distinct old keys, half of the batch is known. Snapshot: as many rows stand as the batch
has, the rest of the history are corrections of them; a tenth of the batch changes, then in
another batch every row. The old
slices are written beside the ingest path. `state` is what the merge keeps beside the chain,
built from nothing by a batch of one row, which no later batch pays again. Ratios are of processor
time (this process and its JVM), since others may load the machine; the aim is 1.5 at most. With one
new row (`1 1000000 100000000`), all of the history of the snapshot is of one key.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.csv
from tests.workers.datasets import created, now, upload

from odf_protocol.chain.rules import author
from odf_protocol.chain.state import Vocab
from odf_protocol.codec.manifests import from_data
from odf_protocol.columns.arrow_schema import from_arrow
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, SetDataSchema
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStep,
)
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.engines.spark.session import SparkOptions, start_spark
from odf_workers.engines.spark_engine.engine import SparkEngine
from odf_workers.jobs.ingest.run import run_ingest
from odf_workers.jobs.work.context import Engines, IngestOptions, WorkerContext
from odf_workers.program.engines import warm_up
from odf_workers.slices.conform import NullCounts
from odf_workers.slices.costs import pieces
from odf_workers.slices.write import SlicePlan, write_slice

SIZES = [int(word) for word in sys.argv[1:]] or [1_000_000, 1_000_000, 10_000_000]
STEP = 250_000
"""Old rows that are made at once."""
AIM = 1.5
EVERY = 11
"""The batch in which every row changes."""
MILLIS = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", MILLIS, nullable=False),
        pa.field("event_time", MILLIS, nullable=False),
        pa.field("city", pa.string(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.float64()),
    ]
)
READ = {
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
CITIES = pa.array([f"city {n}" for n in range(97)])


@dataclass
class Spent:
    """Seconds by the clock and of the processors."""

    wall: float
    cpu: float


def cpu_seconds() -> float:
    """Of this process and of its children, the JVM among them."""
    ticks, mine = os.sysconf("SC_CLK_TCK"), str(os.getpid())
    total = time.process_time()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if words[1] == mine:
            total += (int(words[11]) + int(words[12])) / ticks
    return total


def columns(keys: np.ndarray, values: np.ndarray) -> dict[str, pa.Array]:
    times = pa.array(1_700_000_000_000 + keys % 86_400_000, pa.int64()).cast(MILLIS)
    return {
        "event_time": times,
        "city": CITIES.take(pa.array(keys % len(CITIES))),
        "k": pa.array(keys),
        "v": pa.array(values),
    }


def old_rows(kind: str, new: int, old: int) -> Iterator[pa.RecordBatch]:
    """Batches of the history: what a ledger or a snapshot of that many rows has written."""
    for start in range(0, old, STEP):
        number = np.arange(start, min(start + STEP, old), dtype=np.int64)
        keys, values, codes = number, number / 7, np.zeros(len(number), np.int32)
        if kind == "Snapshot":  # pairs of old and new row follow the first rows
            pair, follows = number // 2 % new, number >= new
            keys = np.where(follows, pair, number)
            codes = np.where(follows, 2 + number % 2, 0).astype(np.int32)
            values = np.where(follows, pair / 7 + start + number % 2, values)
        data = columns(keys, values)
        yield pa.RecordBatch.from_pydict({"op": pa.array(codes), **data})


def fill(stores: Stores, dataset: Dataset, kind: str, new: int, old: int, scratch: Path) -> None:
    """Commit the old rows as slices."""
    when = now()
    plan = SlicePlan(
        schema=SCHEMA, vocab=Vocab(), start=0, system_time=when, source_event_time=when
    )
    events: list[AddData | SetDataSchema] = [SetDataSchema(schema=from_arrow(SCHEMA))]
    last = None
    mark: Instant | None = None
    for piece in pieces(old_rows(kind, new, old), 1 << 20, 256 << 20):
        start = 0 if last is None else last + 1
        own, nulls = replace(plan, start=start), NullCounts(SCHEMA)
        path = scratch / f"slice-{start}"
        written = write_slice(iter(piece.batches), own, path, nulls, in_memory=False)
        assert written.data is not None
        assert written.max_event_time is not None
        mark = max(mark or written.max_event_time, written.max_event_time)
        key = ObjectKey(dataset.id, ObjectKind.DATA, written.data.physical_hash)
        stores.objects.put(key, written.chunks())
        written.path.unlink(missing_ok=True)
        events.append(AddData(prev_offset=last, new_data=written.data, new_watermark=mark))
        last = written.data.offset_interval.end
    blocks, _ = author(dataset.state(), events, system_time=when)
    dataset.commit(blocks, expected=dataset.head())


def batch(kind: str, new: int, old: int, number: int) -> bytes:
    """The batch as Csv: half known, or the standing rows with a tenth of them changed, or all."""
    if kind == "Ledger":
        keys = np.arange(old - new // 2, old + new - new // 2, dtype=np.int64)
        values = keys / 7
    else:
        keys = np.arange(new, dtype=np.int64)
        changed = (keys % 10 == number) | (number == EVERY)
        values = standing(new, old) + np.where(changed, number + 1.0, 0.0)
    sink = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(pa.table(columns(keys, values)), sink, options)
    return sink.getvalue().to_pybytes()


def standing(new: int, old: int) -> np.ndarray:
    """Values of the keys once all of the history is through."""
    values = np.arange(new) / 7
    for rows in old_rows("Snapshot", new, old):
        done = rows.filter(pa.compute.not_equal(rows.column("op"), 2))
        keys = done.column("k").to_numpy()
        inside = keys < new
        values[keys[inside]] = done.column("v").to_numpy()[inside]
    return values


def measure(stores: Stores, dataset: Dataset, bench: WorkerContext, body: bytes) -> Spent:
    payload = upload(stores, dataset, body)
    wall, cpu = time.perf_counter(), cpu_seconds()
    receipt = run_ingest(dataset, payload, bench, now=now())
    spent = Spent(time.perf_counter() - wall, cpu_seconds() - cpu)
    print(
        f"    +{receipt.rows_added} known {receipt.rows_known} corrected {receipt.rows_corrected} "
        f"retracted {receipt.rows_retracted}: {spent.wall:.1f} s, {spent.cpu:.1f} s of processors",
        flush=True,
    )
    return spent


def main() -> None:
    new, *olds = SIZES
    folder = Path(tempfile.mkdtemp(prefix="odf-bench-"))
    session = start_spark(SparkOptions(scratch=folder))
    stores = open_stores(StoreSettings(data=folder / "data"))
    bench = WorkerContext(
        engines=Engines(session=session, first=SparkEngine(session)),
        objects=stores.objects,
        scratch=folder,
        ingest=IngestOptions(states=MergeStates(folder / "merge-state", max_bytes=1 << 40)),
    )
    strategies: dict[str, MergeStrategy] = {
        "Ledger": MergeStrategyLedger(primary_key=("k",)),
        "Snapshot": MergeStrategySnapshot(primary_key=("k",)),
    }
    read: ReadStep = from_data(READ, ReadStep)
    warm_up(bench, now=now())
    number = 0
    for kind, merge in strategies.items():
        took = []
        for old in olds:
            number += 1
            dataset = created(stores, number=number, read=read, merge=merge)
            print(f"{kind}, {new:,} rows on {old:,}")
            fill(stores, dataset, kind, new, old, folder)
            if kind == "Ledger":
                print("  state from nothing, 1 row:")
                measure(stores, dataset, bench, b"2024-01-01,x,0,\n")
            else:
                print("  state from nothing, nothing changed:")
                measure(stores, dataset, bench, batch(kind, new, old, 10))
            print("  batch:")
            took.append(measure(stores, dataset, bench, batch(kind, new, old, 1)))
            if kind == "Snapshot":
                print("  every row changed:")
                measure(stores, dataset, bench, batch(kind, new, old, EVERY))
            shutil.rmtree(folder / "data" / "datasets" / dataset.id.multibase)
        ratio = took[-1].cpu / took[0].cpu
        print(
            f"{kind}: history factor {ratio:.2f} in processor time, "
            f"{took[-1].wall / took[0].wall:.2f} by the clock; "
            f"{'within' if ratio <= AIM else 'MISSES'} {AIM}"
        )
    session.stop()
    stores.close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
