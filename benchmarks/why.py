"""Why a row is there: a row of a window and of a row-by-row query, beside the same filter by SQL.

    python benchmarks/why.py [rows] [slices] [asked]

Windows have 100 rows. Times are medians of the second and later questions, in the worker's process
for `why` and in DuckDB over the same rows for the filter; those of the processor are means, with
what Spark and the processes of DataFusion take. Bytes are those that were read, as a share of the
files. The stores are those of a node, on disk, so a file is hashed once and then known.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import duckdb
import numpy as np
import pyarrow as pa
from processes import bytes_read, cpu_seconds
from tests.workers.derivatives import (
    MILLIS,
    SCHEMA,
    START,
    commit,
    derivative,
    moment,
    node_of,
    root,
)
from tests.workers.provenance.asking import why

from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import chunks
from odf_storage.datasets.job_payloads.transform_job import TransformPayload
from odf_storage.datasets.node.open_stores import StoreSettings, open_stores
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind
from odf_workers.engines.spark.session import SparkOptions, SparkWhenNeeded
from odf_workers.engines.spark_engine.engine import SparkEngine
from odf_workers.jobs.transform.run import run_transform
from odf_workers.jobs.work.context import Engines
from odf_workers.slices.write import described, write_batches

ROWS, SLICES, ASKED = [int(word) for word in [*sys.argv[1:], "1000000", "100", "5"][:3]]
GROUP = 100
HOUR = 3600
HOURLY = (
    "select window(event_time, '1 hour').start as event_time, city, sum(n) as total "
    "from cities group by window(event_time, '1 hour'), city"
)
TENS = "select event_time, city, n * 10 as tens from cities"


def add_slice(stores: Stores, cities: Dataset, number: int, folder: Path) -> None:
    """Add a slice of rows: a group of each hour, one hour after the other."""
    each = ROWS // SLICES
    at = np.arange(number * each, (number + 1) * each, dtype=np.int64)
    hours, place = at // GROUP, at % GROUP
    seconds = hours * HOUR + place
    columns = {
        "offset": pa.array(at),
        "op": pa.array(np.zeros(each, np.int32)),
        "system_time": pa.array(np.full(each, moment(10 + number).millis)).cast(MILLIS),
        "event_time": pa.array(START.millis + seconds * 1000).cast(MILLIS),
        "city": pa.array([f"c{hour % 7}" for hour in hours.tolist()]),
        "n": pa.array(place + at % 11),
    }
    path = folder / f"{cities.id.multibase}-{number:05}.parquet"
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=SCHEMA)
    write_batches(iter([batch]), SCHEMA, path)
    data = described(path, number * each)
    stores.objects.put(ObjectKey(cities.id, ObjectKind.DATA, data.physical_hash), chunks(path))
    commit(
        cities,
        AddData(
            prev_offset=cities.state().last_offset,
            new_data=data,
            new_watermark=moment(int(seconds[-1])),
        ),
        at=10 + number,
    )


def median(ask: Callable[[int], Any]) -> tuple[float, float, float]:
    """Return the median seconds and bytes of questions after the first one, and the mean seconds
    of the processor."""
    ask(0)
    worked = cpu_seconds(os.getpid())
    seconds, read = [], []
    for at in range(1, ASKED + 1):
        before, began = bytes_read(os.getpid()), time.perf_counter()
        ask(at)
        seconds.append(time.perf_counter() - began)
        read.append(bytes_read(os.getpid()) - before)
    worked = cpu_seconds(os.getpid()) - worked
    return statistics.median(seconds), statistics.median(read), worked / ASKED


def main(folder: Path) -> None:
    stores = open_stores(StoreSettings(data=folder / "node", durable=False), repair=False)
    spark = SparkWhenNeeded(SparkOptions(scratch=folder, folders=(folder,)))
    with_spark = Engines(session=spark, first=SparkEngine(spark))
    here = node_of(stores, folder)
    bench = replace(here, engines=with_spark, provenance_rows=ROWS)
    cities = root(stores, "cities")
    for number in range(SLICES):
        add_slice(stores, cities, number, folder)
    hourly = derivative(stores, "hourly", [cities], HOURLY, engine="spark")
    tens = derivative(stores, "tens", [cities], TENS)
    run_transform(stores, hourly, TransformPayload(), bench, now=moment(10**6))
    run_transform(stores, tens, TransformPayload(), here, now=moment(10**6))
    files = f"{folder}/{cities.id.multibase}-*.parquet"
    size = sum(path.stat().st_size for path in folder.glob(f"{cities.id.multibase}-*.parquet"))
    groups, step = ROWS // GROUP - GROUP, 97

    def by_sql(at: int) -> Any:
        start = moment(at * step % groups * HOUR)
        end = Instant(start.ns + HOUR * 1_000_000_000)
        return duckdb.sql(
            f"select * from '{files}' where event_time >= '{start}' and event_time < '{end}'"
        ).fetchall()

    filtered, _, busy = median(by_sql)
    questions = {
        "window": lambda at: why(stores, bench, hourly, at * step % groups),
        "row by row": lambda at: why(stores, here, tens, at * step * GROUP % ROWS),
    }
    print(
        f"{ROWS} rows in {SLICES} slices, {size >> 10} KiB; the filter by SQL: {filtered:.3f} s, "
        f"{busy:.3f} s of the processor"
    )
    for name, ask in questions.items():
        assert ask(0).check.verdict == "reproduced", name
        seconds, read, worked = median(ask)
        print(
            f"{name}: {seconds:.3f} s, {seconds / filtered:.1f} times, {read / size:.1%} read; "
            f"{worked:.3f} s of the processor, {worked / busy:.1f} times"
        )
    spark.stop()
    stores.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="why-") as place:
        main(Path(place))
