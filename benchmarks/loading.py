"""A million rows loaded each way, next to reading the same files from the disk.

    python benchmarks/loading.py [rows] [slices] [asked] [spark]

Each way gives all rows and columns to the program. The limit is pyarrow on the files in the folder
of the node, in the same run; ratios are to it. The node, with its worker that ingests the rows
first, runs in processes of its own. Times are medians, after one that is not counted; those of the
processor are of the program alone. `spark`: a Spark of a user, next to its own reader of files.
Delta Sharing's client runs in a process of its own, so the time of its processor is not told.

The last table is what DuckDB asks for by ranges, of the node and of a plain file server.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import duckdb
import duckdb_extension_httpfs
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
from counting import counting
from iceberg_clients import catalogue, duck
from nodes import RunningNode, served
from ranged_files import ranged_files
from sharing_client import sharing_client
from user_spark import user_spark

import odf_node
from odf_node.public.filesystem import OdfFileSystem

WITH_SPARK = "spark" in sys.argv
NUMBERS = [int(word) for word in sys.argv[1:] if word.isdigit()]
ROWS, SLICES, ASKED = [*NUMBERS, *(1_000_000, 10, 5)[len(NUMBERS) :]]


@dataclass(frozen=True)
class Took:
    """Medians in seconds."""

    wall: float
    cpu: float


def took(load: Callable[[], Any]) -> Took:
    walls, cpus = [], []
    for number in range(ASKED + 1):
        began, worked = time.perf_counter(), time.process_time()
        answer = load()
        found = answer if isinstance(answer, int) else len(answer)
        spent = time.perf_counter() - began, time.process_time() - worked
        assert found == ROWS, found
        if number:
            walls.append(spent[0])
            cpus.append(spent[1])
    return Took(statistics.median(walls), statistics.median(cpus))


def rows() -> Iterator[pa.Table]:
    """What is published, a slice at a time."""
    rng, size = np.random.default_rng(7), ROWS // SLICES
    assert size * SLICES == ROWS, "as many rows in each slice"
    for number in range(SLICES):
        ids = np.arange(number * size, (number + 1) * size)
        yield pa.table(
            {
                "id": ids,
                "city": pa.array([f"city {n}" for n in range(997)]).take(pa.array(ids % 997)),
                "seen": pa.array(1_700_000_000_000 + ids, pa.int64()).cast(
                    pa.timestamp("ms", "UTC")
                ),
                "value": rng.normal(size=size),
                "count": rng.integers(0, 1_000, size),
            }
        )


def ways(node: RunningNode, folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """By name, each of what a user writes; the first one is the limit."""
    url = f"{node.url}/many"
    data = odf_node.open(url)
    odf_node.pull(f"odf+{url}", folder / "copy")
    with node.http() as client:
        urls = client.get("/many/files?format=txt").text.split()
    disk = [str(next(node.data.rglob(each.rpartition("/")[2]))) for each in urls]
    schema = pl.scan_parquet(disk[-1]).collect_schema()
    place = f"odf://{url.removeprefix('http://')}"
    files, path = fsspec.url_to_fs(place)
    arrow = data.schema
    db = duckdb.connect()
    extension = Path(duckdb_extension_httpfs.__file__).parent
    db.load_extension(str(next(extension.rglob("*.duckdb_extension"))))

    def polars(paths: list[str]) -> pl.DataFrame:
        return pl.scan_parquet(paths, schema=schema, missing_columns="insert").collect()

    def by_duckdb(source: str, *given: Any) -> pa.Table:
        return db.execute(f"FROM {source}", given).to_arrow_table()

    yield "files: pyarrow", lambda: pads.dataset(disk, schema=arrow).to_table()
    yield "files: pandas", lambda: pd.concat([pd.read_parquet(each) for each in disk])
    yield "files: Polars", lambda: polars(disk)
    yield "files: DuckDB", lambda: by_duckdb("read_parquet(?)", disk)
    yield "open(url).arrow()", data.arrow
    yield "open(url).pandas()", data.pandas
    yield "open(url, verify=True).arrow()", odf_node.open(url, verify=True).arrow
    yield "open(folder).arrow()", odf_node.open(folder / "copy").arrow
    yield "odf:// pyarrow", lambda: pads.dataset(path, filesystem=files, schema=arrow).to_table()
    yield "odf:// pandas", lambda: pd.read_parquet(place)
    yield "URLs of files: Polars", lambda: polars(urls)
    yield "URLs of files: DuckDB", lambda: by_duckdb("read_parquet(?)", urls)
    read = f"{url}/read?format="
    yield "read?format=parquet pandas", lambda: pd.read_parquet(f"{read}parquet")
    yield "read?format=csv DuckDB", lambda: by_duckdb(f"read_csv('{read}csv')")


def doors(node: RunningNode) -> Iterator[tuple[str, Callable[[], Any]]]:
    """By name, each of what a user writes who comes by a door for many datasets."""
    table = catalogue(node, None).load_table("kamu.many")
    keys = {name: text for name, text in table.io.properties.items() if name.startswith("s3.")}
    bucket = pafs.S3FileSystem(anonymous=True, endpoint_override=node.url, region="us-east-1")
    os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"

    def by_duckdb() -> pa.Table:
        with duck(node, None) as db:
            return db.execute("FROM odf.kamu.many").to_arrow_table()

    def by_polars() -> pl.DataFrame:
        asked: dict[str, Any] = {"reader_override": "native", "storage_options": keys}
        return pl.scan_iceberg(table, **asked).collect()

    yield "S3: pyarrow", lambda: pads.dataset("many/data", filesystem=bucket).to_table()
    yield "Iceberg: pyiceberg", lambda: table.scan().to_arrow()
    yield "Iceberg: DuckDB", by_duckdb
    yield "Iceberg: Polars", by_polars


def ranges(node: RunningNode) -> None:
    """What DuckDB asks for, in requests and bytes."""
    with node.http() as client:
        urls = client.get("/many/files?format=txt").text.split()
    names = [url.rpartition("/")[2] for url in urls]
    folder = next(node.data.rglob(names[0])).parent
    extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("*.duckdb_extension"))
    print(f"  {'DuckDB by ranges':<32} {'file server':>22} {'node':>22}")
    with ranged_files(folder) as plain, counting(plain) as other, counting(node.url) as ours:
        for query in ('max("offset")', 'sum(count) FILTER ("offset" < 1000)', "count(city)"):
            told = []
            for counted, base in ((other, other.url), (ours, f"{ours.url}/many/data")):
                counted.reset()
                with duckdb.connect() as db:
                    db.load_extension(str(extension))
                    files = [f"{base}/{name}" for name in names]
                    db.execute(f"SELECT {query} FROM read_parquet(?)", [files]).fetchall()
                told.append(f"{len(counted.requests)} for {counted.bytes:,} bytes")
            print(f"  {query:<32} {told[0]:>22} {told[1]:>22}")


def with_spark(node: RunningNode, folder: Path) -> None:
    code = """
        import statistics, time
        def took(frame):
            times = []
            for _ in range(asked + 1):
                began = time.perf_counter()
                frame().write.format("noop").mode("overwrite").save()
                times.append(time.perf_counter() - began)
            return statistics.median(times[1:])
        import odf_node
        spark.dataSource.register(odf_node.SparkSource)
        found = [took(lambda: spark.read.parquet(*disk)),
                 took(lambda: spark.read.format("odf").load(url))]
    """
    with node.http() as client:
        names = [
            each.rpartition("/")[2] for each in client.get("/many/files?format=txt").text.split()
        ]
    disk = [str(next(node.data.rglob(name))) for name in names]
    with user_spark(folder) as spark:
        limit, found = spark.run(code, asked=ASKED, url=f"{node.url}/many", disk=disk)
    print(f"  {'files: Spark':<32} {limit:6.2f} s")
    print(f"  {'format(odf): Spark':<32} {found:6.2f} s, ratio to Spark's {found / limit:5.2f}")


def main() -> None:
    for name in OdfFileSystem.protocol:
        fsspec.register_implementation(name, OdfFileSystem, clobber=True)
    with (
        tempfile.TemporaryDirectory() as name,
        served(Path(name) / "node", ODF_WORKER_WARM_UP="false") as node,
    ):
        folder = Path(name)
        for table in rows():
            odf_node.publish(table, f"{node.url}/many", visibility="public", token=node.token())
        size = sum(each.stat().st_size for each in node.data.rglob("data/f1620*"))
        load = os.getloadavg()[0]
        print(f"{ROWS} rows in {SLICES} slices, {size / 1e6:.1f} MB; load {load:.1f}")
        with sharing_client(node, node.token(), folder) as sharing:
            asked = partial(sharing.count, "kamu.default.many")
            shared = [
                ("Delta Sharing: pandas", asked),
                ("Delta Sharing, delta: pandas", partial(asked, use_delta_format=True)),
            ]
            limit = None
            for way, call in chain(ways(node, folder), doors(node), shared):
                found = took(call)
                limit = limit or found
                print(
                    f"  {way:<32} {found.wall:6.2f} s, {found.cpu:6.2f} s of processor, "
                    f"ratio {found.wall / limit.wall:5.2f}",
                    flush=True,
                )
        ranges(node)
        if WITH_SPARK:
            with_spark(node, folder)


if __name__ == "__main__":
    main()
