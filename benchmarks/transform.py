"""Transform: what derivatives cost, each part next to its limit in the same run.

    python benchmarks/transform.py [--part iteration|steps|state|verify ...]

**iteration**: one iteration of few new rows behind many old ones, from job to commit. Twice: new
rows that are appended, and a changelog of them, half of which corrects or takes back. The limit,
measured in turn with it: bare Spark reads the same new slice, runs the same query, sorts nothing
and writes one Parquet file, which is then hashed. The aim: at most 1.15 times that, and 100 ms. Old
rows are consumed already; they must not cost anything. Then some of the recorded iterations are
made again, as a verification does; the aim is the time of the iterations themselves. Processor time
is that of this process and of Spark's. The very first iteration of a worker is told too, after its
warm-up; WARM_UP=0 leaves that out.

**steps**: runs of few rows through windows, rankings and joins, `transform_steps.py`. **state**:
windows over a million keys, `transform_state.py`. **verify**: a dataset of 1 GiB next to
SHA3-256, `verify.py`. Each is a process of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from tests.workers.derivatives import MILLIS, SCHEMA, commit, derivative, moment, root

from odf_protocol.metadata.events import AddData, ExecuteTransform, ExecuteTransformInput
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import chunks
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.engines.spark.session import SparkOptions, start_spark
from odf_workers.engines.spark_engine.engine import SparkEngine
from odf_workers.jobs.transform.replay import replay
from odf_workers.jobs.transform.run import run_transform
from odf_workers.jobs.work.context import Engines, IngestOptions, WorkerContext
from odf_workers.program.engines import warm_up
from odf_workers.slices.write import described, write_batches

PARTS = {
    "iteration": None,
    "steps": "transform_steps.py",
    "state": "transform_state.py",
    "verify": "verify.py",
}
SLICE_ROWS = 1_000_000
REPLAYS = 5
WARM_UP = os.environ.get("WARM_UP") != "0"
Codes = Sequence[int]
APPENDS = (0,)
INPUTS: dict[str, Codes] = {"appends": APPENDS, "changes": (0, 0, 1, 2, 3, 0)}
"""Operations of new rows, in turn: append, retract, correct from and to."""
QUERY = "select op, event_time, upper(city) as city, n * 10 as n from {} where n % 7 <> 0"
RATIO, EXTRA_S = 1.15, 0.1


def add(stores: Stores, dataset: Dataset, rows: int, folder: Path, at: int, ops: Codes) -> Path:
    """One slice of rows with these operations in turn; the file it was written to."""
    state = dataset.state()
    start = 0 if state.last_offset is None else state.last_offset + 1
    numbers = np.arange(start, start + rows, dtype=np.int64)
    columns = [
        pa.array(numbers),
        pa.array(np.resize(np.array(ops, np.int32), rows)),
        pa.array(np.full(rows, moment(at).millis)).cast(MILLIS),
        pa.array(moment(0).millis + numbers).cast(MILLIS),
        pa.array(np.char.add("c", (numbers % 1000).astype(str))),
        pa.array(numbers),
    ]
    path = folder / f"slice-{dataset.entry.alias.name}-{start}.parquet"
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


def bare(session: SparkSession, path: Path, folder: Path) -> None:
    """The same query on the same slice, without anything around it."""
    child = session.newSession()
    child.read.parquet(str(path)).createTempView("cities")
    out = folder / "bare"
    child.sql(QUERY.format("cities")).coalesce(1).write.parquet(str(out))
    for file in out.glob("part-*.parquet"):
        hashlib.sha3_256(file.read_bytes()).hexdigest()
    shutil.rmtree(out)


def processor_s() -> float:
    """Of this process and of those it started, such as Spark's."""
    pids = [os.getpid(), *(int(pid) for pid in _children(os.getpid()))]
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


class Sizes(NamedTuple):
    """How much is read."""

    old_rows: int
    new_rows: int
    iterations: int


@dataclass
class Costs:
    """What turns of one piece of work took, by the clock and of processors."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @contextmanager
    def turn(self) -> Iterator[None]:
        began, used = time.perf_counter(), processor_s()
        yield
        self.clock.append(time.perf_counter() - began)
        self.processor.append(processor_s() - used)

    def __str__(self) -> str:
        busy = statistics.mean(self.processor)
        return f"{statistics.median(self.clock):.3f} s (of processors {busy:.3f} s)"


def ratio(one: Costs, other: Costs) -> str:
    clock = statistics.median(one.clock) / statistics.median(other.clock)
    busy = statistics.mean(one.processor) / statistics.mean(other.processor)
    return f"ratio {clock:.2f} (of processors {busy:.2f})"


def play(
    stores: Stores, bench: WorkerContext, folder: Path, name: str, ops: Codes, sizes: Sizes
) -> None:
    """Iterations over one kind of input, each beside its limit; then made again."""
    source = root(stores, name)
    target = derivative(stores, f"{name}-tens", [source], QUERY.format(name), engine="spark")
    ours, limit, again = Costs(), Costs(), Costs()
    at = 10
    for _ in range(max(1, sizes.old_rows // SLICE_ROWS)):
        add(stores, source, min(sizes.old_rows, SLICE_ROWS), folder, at, APPENDS)
        at += 1
    consume(target, source)
    for turn in range(sizes.iterations):
        path = add(stores, source, sizes.new_rows, folder, 1000 + turn, ops)
        with limit.turn():
            bare(bench.engines.session, path, folder)
        with ours.turn():
            receipt = run_transform(
                stores, target, TransformPayload(), bench, now=moment(2000 + turn)
            )
        assert receipt.rows_read == sizes.new_rows, receipt
    for block in [block for page in target.pages() for block in page][
        -min(REPLAYS, sizes.iterations) :
    ]:
        with again.turn():
            made = replay(stores, target, block, bench)
        assert not made.differences, made.differences
    aim_s = statistics.median(limit.clock) * RATIO + EXTRA_S
    verdict = "within" if statistics.median(ours.clock) <= aim_s else "beyond"
    print(f"{sizes.new_rows} new rows behind {sizes.old_rows}, {name}:")
    print(f"  bare Spark {limit}")
    print(f"  iteration  {ours}: {ratio(ours, limit)}, {verdict} the aim of {aim_s:.3f} s")
    print(f"  replay     {again}: {ratio(again, ours)} to the iteration", flush=True)


def first(stores: Stores, bench: WorkerContext, folder: Path, new_rows: int) -> None:
    """What the first iterations of a worker take."""
    source = root(stores, "first")
    target = derivative(stores, "first-tens", [source], QUERY.format("first"), engine="spark")
    costs = Costs()
    for turn in range(3):
        add(stores, source, new_rows, folder, 10 + turn, APPENDS)
        with costs.turn():
            run_transform(stores, target, TransformPayload(), bench, now=moment(2000 + turn))
    took = ", ".join(f"{each:.3f}" for each in costs.clock)
    print(
        f"the first iterations {'after' if WARM_UP else 'without'} a warm-up: {took} s", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    parser.add_argument("--old-rows", type=int, default=10_000_000)
    parser.add_argument("--new-rows", type=int, default=1_000)
    parser.add_argument("--iterations", type=int, default=15)
    asked = parser.parse_args()
    for part in asked.part or PARTS:
        print(f"--- {part}", flush=True)
        if script := PARTS[part]:
            subprocess.run([sys.executable, Path(__file__).with_name(script)], check=True)
        else:
            iterations(Sizes(asked.old_rows, asked.new_rows, asked.iterations))


def iterations(sizes: Sizes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stores = open_stores(StoreSettings(data=folder / "node"))
        session = start_spark(SparkOptions(scratch=folder / "spark", folders=(folder,)))
        scratch = folder / "scratch"
        scratch.mkdir()
        bench = WorkerContext(
            engines=Engines(session=session, first=SparkEngine(session)),
            objects=stores.objects,
            scratch=scratch,
            ingest=IngestOptions(states=MergeStates(folder / "merge-state", max_bytes=1 << 40)),
        )
        if WARM_UP:
            began = time.perf_counter()
            warm_up(bench, now=moment(0))
            print(f"warm-up {time.perf_counter() - began:.1f} s")
        first(stores, bench, folder, sizes.new_rows)
        for kind, ops in INPUTS.items():
            play(stores, bench, folder, kind, ops, sizes)
        session.stop()
        stores.close()


if __name__ == "__main__":
    main()
