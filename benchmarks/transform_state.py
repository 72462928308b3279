"""A step of a stateful query against computing everything anew: a million groups kept, few touched.

Sums per key and day are kept for a million keys. Measured are the first run over the whole history,
then steps of a thousand new rows: into an open day, and late ones that correct a day that was
told. The limits of the same run: the batch query over the whole history, and copying the state file
row by row, which a step cannot beat since a checkpoint is one complete file.

Seconds are by the clock and of processors (this process and its JVM), ratios by both; the machine
may do other things besides. At the end: the most memory each of the two processes had. Spark has
the heap a worker has unless told otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from processes import cpu_seconds

from odf_protocol.chain.state import Vocab
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import OffsetInterval, SqlQueryStep, TransformSql
from odf_workers.engines.spark.frames import read_parquet
from odf_workers.engines.spark.session import SparkOptions, start_spark
from odf_workers.engines.stateful import NewRows, StatefulInput, run, stateful_plan
from odf_workers.settings import WorkerSettings

TIME = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    {
        "offset": pa.int64(),
        "op": pa.int32(),
        "system_time": TIME,
        "event_time": TIME,
        "key": pa.int64(),
        "value": pa.int32(),
    }
)
DAY_MS = 86_400_000
QUERY = (
    "select window(event_time, '1 day').start as event_time, key, count(*) as n, "
    "sum(value) as total from x group by window(event_time, '1 day'), key"
)


def rows(start: int, count: int, keys: int, day: int, path: Path) -> Path:
    random = np.random.default_rng(start)
    columns = [
        np.arange(start, start + count),
        np.zeros(count, np.int32),
        np.zeros(count, np.int64),
        day * DAY_MS + random.integers(0, DAY_MS, count),
        random.permutation(count) % keys,
        random.integers(0, 1000, count, dtype=np.int32),
    ]
    arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path)
    return path


Cost = tuple[float, float]
"""Seconds by the clock, and of processors."""


def processes() -> list[int]:
    """This process and its JVM."""
    own = os.getpid()
    children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    return [own, *map(int, children)]


def peak_mib(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def timed(what: str, act: Callable[[], object], base: Cost | None = None) -> Cost:
    start, used = time.perf_counter(), cpu_seconds(os.getpid())
    said = act()
    cost = time.perf_counter() - start, cpu_seconds(os.getpid()) - used
    line = f"{what:48}{cost[0]:7.2f} s, processors{cost[1]:7.2f} s"
    if base is not None:
        line += f"  {cost[0] / base[0]:5.2f} and {cost[1] / base[1]:5.2f} of the batch query"
    print(line, said or "", sep="  ", flush=True)
    return cost


def copied(state: Path, to: Path) -> None:
    """The floor: read every kept row and write it again."""
    import tarfile

    with tarfile.open(state) as tar:
        tar.extractall(to, filter="data")
    for section in sorted(to.glob("*.parquet")):
        file = pq.ParquetFile(section)
        with pq.ParquetWriter(to / "copy", file.schema_arrow, compression="zstd") as writer:
            for batch in file.iter_batches(65_536):
                writer.write_batch(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the history")
    parser.add_argument("--step", type=int, default=1_000)
    heap = WorkerSettings.model_fields["spark_driver_memory"].default
    parser.add_argument("--memory", default=heap, help="heap of Spark")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        play(Path(name), asked.keys, asked.rows, asked.step, asked.memory)


def play(folder: Path, keys: int, count: int, step: int, memory: str) -> None:
    spark = start_spark(SparkOptions(scratch=folder / "spark", folders=(folder,), memory=memory))
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=QUERY),))
    given = [StatefulInput(alias="x", schema=SCHEMA, vocab=Vocab())]
    plan = stateful_plan(spark, transform, given, Vocab())
    assert plan is not None
    state: list[Path | None] = [None]
    history = [rows(0, count, keys, 0, folder / "history.parquet")]
    offset = [count]

    def take(paths: list[Path], start: int, number: int, hour: int) -> str:
        fresh = folder / f"state-{start}-{hour}"
        result = run(
            plan,
            [
                NewRows(
                    alias="x",
                    paths=tuple(paths),
                    interval=OffsetInterval(start=start, end=start + number - 1),
                    watermark=Instant(hour * 3_600_000_000_000),
                )
            ],
            state=state[0],
            new_state=fresh,
            output=folder / "out.parquet",
            scratch=folder,
        )
        state[0] = fresh
        size = fresh.stat().st_size >> 20
        return f"{result.rows} rows told, {result.state_rows} kept in {size} MB"

    def more(hour: int, day: int) -> Callable[[], str]:
        start = offset[0]
        offset[0] += step
        path = rows(start, step, keys, day, folder / f"new-{start}.parquet")
        history.append(path)
        return lambda: take([path], start, step, hour)

    def batch() -> None:
        read_parquet(spark, history, SCHEMA).createOrReplaceTempView("x")
        target = str(folder / "batch")
        spark.sql(QUERY).write.mode("overwrite").parquet(target)

    warm = rows(0, 1000, 10, 0, folder / "warm.parquet")
    read_parquet(spark, [warm], SCHEMA).createOrReplaceTempView("x")
    spark.sql(QUERY).toArrow()
    print(f"{keys} keys, history of {count} rows, steps of {step} rows")
    base = timed("batch query over the history", batch)
    timed("first run: the history becomes state", lambda: take(history, 0, count, 20), base)
    timed("step into the open day", more(21, 0), base)
    timed("step into the open day, again", more(22, 0), base)
    timed("the day ends: every group is told", more(25, 1), base)
    timed("step of late rows: told groups are corrected", more(25, 0), base)
    timed("step of late rows, again", more(25, 0), base)
    to = folder / "copy"
    to.mkdir()
    timed("floor: the state file copied row by row", lambda: copied(state[0] or to, to), base)
    timed("batch query over the longer history", batch, base)
    for process, name in zip(processes(), ("this process", "the JVM"), strict=False):
        print(f"most memory of {name}: {peak_mib(process)} MiB")
    spark.stop()


if __name__ == "__main__":
    main()
