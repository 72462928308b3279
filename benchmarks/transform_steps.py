"""What a run of few rows costs: windows, rankings and joins, on a worker that ran the query before.

Each form is run a few times with 300 new rows over the same keys, watermarks moving. Told are the
first run, and median and least of those after the third. Seconds are by the clock and of
processors (this process and its JVM); the machine may do other things besides.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
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
from odf_workers.engines.spark.session import SparkOptions, start_spark
from odf_workers.engines.stateful import NewRows, StatefulInput, run, stateful_plan

TIME = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    {
        "offset": pa.int64(),
        "op": pa.int32(),
        "system_time": TIME,
        "event_time": TIME,
        "k": pa.int64(),
        "v": pa.int32(),
    }
)
HOUR_MS = 3_600_000
KEYS, UNMEASURED = 50, 3
FORMS = {
    "window": "select window(event_time, '1 day').start as event_time, k, count(*) as n, "
    "sum(v) as s from x group by window(event_time, '1 day'), k",
    "ranking": "select event_time, k, v, place from (select *, row_number() over "
    "(partition by k order by v desc) as place from x) where place <= 3",
    "interval join": "select x.event_time, x.k, x.v, y.v as other from x left join y on x.k = y.k "
    "and y.event_time between x.event_time - interval 2 hours and x.event_time + interval 6 hours",
    "as-of join": "select x.event_time, x.k, x.v, y.v as other from x asof join y "
    "match_condition (x.event_time >= y.event_time) on x.k = y.k",
}


def rows(start: int, count: int, hour: int, seed: int, path: Path) -> Path:
    random = np.random.default_rng(seed)
    columns = [
        np.arange(start, start + count),
        np.zeros(count, np.int32),
        np.zeros(count, np.int64),
        hour * HOUR_MS + random.integers(0, HOUR_MS, count),
        random.permutation(count) % KEYS,
        random.integers(0, 1000, count, dtype=np.int32),
    ]
    arrays = [pa.array(c).cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--rows", type=int, default=300)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = start_spark(SparkOptions(scratch=folder / "spark", folders=(folder,)))
        print(f"runs of {asked.rows} rows; load {os.getloadavg()[0]:.1f}", flush=True)
        for form, query in FORMS.items():
            inputs = ("x", "y") if " y " in query else ("x",)
            transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
            given = [StatefulInput(alias=a, schema=SCHEMA, vocab=Vocab()) for a in inputs]
            began = time.perf_counter()
            plan = stateful_plan(spark, transform, given, Vocab())
            planned = time.perf_counter() - began
            assert plan is not None
            state: Path | None = None
            costs: list[tuple[float, float]] = []
            for at in range(asked.runs + UNMEASURED):
                start = at * asked.rows
                new = [
                    NewRows(
                        alias=alias,
                        paths=(
                            rows(start, asked.rows, at, at * 2 + side, folder / f"new-{alias}"),
                        ),
                        interval=OffsetInterval(start=start, end=start + asked.rows - 1),
                        watermark=Instant((at * HOUR_MS) * 1_000_000),
                    )
                    for side, alias in enumerate(inputs)
                ]
                fresh = folder / f"state-{at % 2}"
                began, used = time.perf_counter(), cpu_seconds(os.getpid())
                run(plan, new, state=state, new_state=fresh, output=folder / "o", scratch=folder)
                costs.append((time.perf_counter() - began, cpu_seconds(os.getpid()) - used))
                state = fresh
            clock, busy = zip(*costs[UNMEASURED:], strict=True)
            print(
                f"{form:14} planned {planned:5.2f} s; first {costs[0][0]:5.2f} s, processors "
                f"{costs[0][1]:5.2f} s; then {statistics.median(clock):5.2f} s, processors "
                f"{statistics.median(busy):5.2f} s (least {min(busy):5.2f} s)",
                flush=True,
            )
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
