"""Transform: one iteration of few new rows behind many old ones, from job to commit.

    python benchmarks/transform.py [old rows] [new rows] [iterations]

The limit, measured in turn with it: bare Spark reads the same new slice, runs the same query, sorts
nothing and writes one Parquet file, which is then hashed. The aim: at most 1.15 times that, and
100 ms. Old rows are consumed already; they must not cost anything.
"""

from __future__ import annotations

import hashlib
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from protocol.metadata.data import ExecuteTransformInput
from protocol.metadata.events import AddData, ExecuteTransform
from storage.config import StoreSettings, open_stores
from storage.dataset import Dataset
from storage.local_files import chunks
from storage.stores import Stores
from storage.transform_job import TransformPayload
from storage.values import ObjectKey, ObjectKind
from tests.workers.derivatives import MILLIS, SCHEMA, commit, derivative, moment, root
from workers.engine.spark import SparkOptions, start_spark
from workers.engine.spark_engine import SparkEngine
from workers.ingest.bench import Bench
from workers.transform.run import run_transform
from workers.write import described, write_batches

OLD_ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
NEW_ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
ITERATIONS = int(sys.argv[3]) if len(sys.argv) > 3 else 15
SLICE_ROWS = 1_000_000
WARM_UP = 3
QUERY = "select op, event_time, upper(city) as city, n * 10 as n from cities where n % 7 <> 0"
RATIO, EXTRA_S = 1.15, 0.1


def add(stores: Stores, dataset: Dataset, rows: int, folder: Path, at: int) -> Path:
    """One slice of rows; the file it was written to."""
    state = dataset.state()
    start = 0 if state.last_offset is None else state.last_offset + 1
    numbers = np.arange(start, start + rows, dtype=np.int64)
    columns = [
        pa.array(numbers),
        pa.array(np.zeros(rows, np.int32)),
        pa.array(np.full(rows, moment(at).millis)).cast(MILLIS),
        pa.array(moment(0).millis + numbers).cast(MILLIS),
        pa.array(np.char.add("c", (numbers % 1000).astype(str))),
        pa.array(numbers),
    ]
    path = folder / f"slice-{start}.parquet"
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    write_batches(iter([batch]), SCHEMA, path)
    data = described(path, start)
    key = ObjectKey(dataset.id, ObjectKind.DATA, data.physical_hash)
    stores.objects.put(key, chunks(path))
    event = AddData(prev_offset=state.last_offset, new_data=data, new_watermark=moment(at))
    commit(dataset, event, at=at)
    return path


def consume(target: Dataset, source: Dataset) -> None:
    """As if everything so far had been read."""
    state = source.state()
    item = ExecuteTransformInput(
        dataset_id=source.id, new_block_hash=state.head, new_offset=state.last_offset
    )
    commit(target, ExecuteTransform(query_inputs=(item,), new_watermark=state.watermark), at=900)


def bare(session: SparkSession, path: Path, folder: Path) -> float:
    """The same query on the same slice, without anything around it."""
    began = time.perf_counter()
    child = session.newSession()
    child.read.parquet(str(path)).createTempView("cities")
    out = folder / "bare"
    child.sql(QUERY).coalesce(1).write.parquet(str(out))
    for file in out.glob("part-*.parquet"):
        hashlib.sha3_256(file.read_bytes()).hexdigest()
    took = time.perf_counter() - began
    shutil.rmtree(out)
    return took


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stores = open_stores(StoreSettings(data=folder / "node"))
        session = start_spark(SparkOptions(scratch=folder / "spark"))
        scratch = folder / "scratch"
        scratch.mkdir()
        bench = Bench(
            session=session, engine=SparkEngine(session), objects=stores.objects, scratch=scratch
        )
        source = root(stores, "cities")
        target = derivative(stores, "tens", [source], QUERY, engine="spark")
        began = time.perf_counter()
        at = 10
        for _ in range(max(1, OLD_ROWS // SLICE_ROWS)):
            add(stores, source, min(OLD_ROWS, SLICE_ROWS), folder, at)
            at += 1
        print(f"{OLD_ROWS} old rows written in {time.perf_counter() - began:.1f} s")
        consume(target, source)
        ours, limits = list[float](), list[float]()
        for turn in range(WARM_UP + ITERATIONS):
            path = add(stores, source, NEW_ROWS, folder, 1000 + turn)
            limit = bare(session, path, folder)
            began = time.perf_counter()
            payload = TransformPayload()
            receipt = run_transform(stores, target, payload, bench, now=moment(2000 + turn))
            took = time.perf_counter() - began
            assert receipt.rows_read == NEW_ROWS, receipt
            if turn >= WARM_UP:
                ours.append(took)
                limits.append(limit)
        ours_s, limit_s = statistics.median(ours), statistics.median(limits)
        aim_s = limit_s * RATIO + EXTRA_S
        verdict = "within" if ours_s <= aim_s else "beyond"
        print(
            f"{NEW_ROWS} new rows behind {OLD_ROWS}: {ours_s:.3f} s, bare Spark {limit_s:.3f} s, "
            f"ratio {ours_s / limit_s:.2f}, {verdict} the aim of {aim_s:.3f} s"
        )
        session.stop()
        stores.close()


if __name__ == "__main__":
    main()
