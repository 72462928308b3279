"""Engines: milliseconds of one small iteration of a derivative, by what they are spent on.

    python benchmarks/engine.py [iterations] [rows]

The limit is bare Spark in the same run: read the same file with a known schema, run the same
query, collect it, write it. Aim for Spark: at most 1.15 times the limit and 100 ms.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.workers.engine.changes import APPEND, CITIES, NOW_IS, WAS, cities
from tests.workers.engine.requests import Derivative, sql

from odf_protocol.metadata.events import TransformResponseSuccess
from odf_workers.engines.datafusion.engine import DataFusionEngine
from odf_workers.engines.remote.remote import RemoteEngine
from odf_workers.engines.remote.server import serve
from odf_workers.engines.spark.frames import spark_schema
from odf_workers.engines.spark.session import SparkOptions, start_spark
from odf_workers.engines.spark_engine.engine import SparkEngine
from odf_workers.slices.write import parquet_settings

ITERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
WARM = 10
AIM_RATIO, AIM_MORE_MS = 1.15, 100.0
QUERY = "select op, event_time, upper(city) as city, n * 2 as n from cities where n % 3 <> 1"


def rows_of(number: int, *, changes: bool) -> Any:
    rows = [(APPEND, f"c{at % 17}", at) for at in range(ROWS)]
    if changes:
        rows[0:2] = [(WAS, "c", 1), (NOW_IS, "c", 2)]
    return {"cities": cities(*rows, start=number * ROWS)}


def iterations(engine: Any, folder: Path, *, changes: bool = False) -> Callable[[int], None]:
    derivative = Derivative(
        engine=engine,
        folder=folder,
        transform=sql(QUERY, engine=engine.name),
        schemas={"cities": CITIES},
    )

    def one(number: int) -> None:
        answer = derivative.run(rows_of(number, changes=changes))
        if not isinstance(answer, TransformResponseSuccess):
            raise SystemExit(str(answer))

    return one


def bare(spark: SparkSession, folder: Path) -> Callable[[int], None]:
    schema = spark_schema(CITIES)

    def one(number: int) -> None:
        path = folder / f"{number}.parquet"
        pq.write_table(rows_of(number, changes=False)["cities"], path)
        session = spark.newSession()
        session.read.schema(schema).parquet(str(path)).createTempView("cities")
        table = session.sql(QUERY).toArrow()
        pq.write_table(table, folder / "out.parquet", **parquet_settings(table.schema))

    return one


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        spark = start_spark(SparkOptions(scratch=base / "spark", folders=(base,)))
        ours = SparkEngine(spark)
        server, port = serve(ours, "127.0.0.1:0")
        remote = RemoteEngine("spark", f"127.0.0.1:{port}")
        (base / "bare").mkdir()
        contenders = {
            "bare Spark": bare(spark, base / "bare"),
            "spark": iterations(ours, base / "spark-engine"),
            "spark, changes": iterations(ours, base / "changes", changes=True),
            "spark over gRPC": iterations(remote, base / "remote"),
            "datafusion": iterations(DataFusionEngine(), base / "datafusion"),
        }
        times: dict[str, list[float]] = {each: [] for each in contenders}
        for number in range(WARM + ITERATIONS):  # in turns: load of the machine hits all alike
            for each, run in contenders.items():
                began = time.perf_counter()
                run(number)
                times[each].append((time.perf_counter() - began) * 1000)
        limit = statistics.median(times["bare Spark"][WARM:])
        print(f"{ITERATIONS} iterations of {ROWS} rows, median; limit: bare Spark")
        for each, found in times.items():
            median = statistics.median(found[WARM:])
            print(f"{each:16} {median:7.0f} ms   {median / limit:5.2f} x limit")
        spent = statistics.median(times["spark"][WARM:])
        aim = limit * AIM_RATIO + AIM_MORE_MS
        print(f"aim for spark: {aim:.0f} ms: {'kept' if spent <= aim else 'missed'}")
        server.stop(None)
        spark.stop()


if __name__ == "__main__":
    main()
