"""Files between a worker and executors on other machines, which see none of its disk.

They go through the node's bucket, in `.exchange/<random>/…`: executors read and write them there
themselves, with PyArrow. Slices of datasets are read where they lie. What is left of a worker
that died is collected with other abandoned writes.

Executors need what a worker needs: the same Python packages, and credentials of the bucket in
their environment.
"""

from __future__ import annotations

import io
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from storage.layout import EXCHANGE

if TYPE_CHECKING:
    from storage.objects.s3_bucket import Bucket

SETTING = "spark.odf.exchange"
"""Setting of the session: the objects URL. Absent: executors see the worker's disk."""
BATCH_ROWS = 65_536
REMEMBERED = 10_000
_WRITTEN = "partition int, name string"
_places: OrderedDict[str, str] = OrderedDict()
_sent: list[tuple[str, str]] = []
"""Bucket and folder of what was sent and may still be read."""
_lock = threading.Lock()

Rows = Iterator[pa.RecordBatch]


def exchange_of(session: SparkSession) -> str | None:
    """URL of the bucket that files go through; None when none has to."""
    url: str | None = session.conf.get(SETTING, None)
    return url or None


def remember(path: Path, name: str) -> None:
    """A file of this disk is a copy of that object of the bucket."""
    with _lock:
        _places[str(path)] = name
        while len(_places) > REMEMBERED:
            _places.popitem(last=False)


def read_remotely(
    session: SparkSession, url: str, paths: Sequence[Path], schema: T.StructType
) -> DataFrame:
    """Rows of the files, read by executors from the bucket; a file's order is kept."""
    folder = f"{EXCHANGE}/{secrets.token_hex(16)}"
    _sent.append((url, folder))
    names = [
        _places.get(str(path)) or _send(url, path, f"{folder}/{at}")
        for at, path in enumerate(paths)
    ]
    listed = session.createDataFrame([(name,) for name in names], "name string")
    return listed.repartition(max(1, len(names))).mapInArrow(_reading(url, schema), schema)


def write_remotely(frame: DataFrame, url: str, folder: Path) -> list[Path]:
    """The frame's rows, written by executors to the bucket and fetched: a file a partition."""
    place = f"{EXCHANGE}/{secrets.token_hex(16)}"
    written = frame.mapInArrow(_writing(url, place), _WRITTEN).collect()
    folder.mkdir(parents=True)
    bucket, files = _bucket(url), list[Path]()
    for row in sorted(written, key=lambda row: int(row["partition"])):
        path = folder / f"part-{row['partition']:05}.parquet"
        path.write_bytes(bucket.call("get_object", row["name"])["Body"].read())
        files.append(path)
    bucket.delete_below(f"{place}/")
    return files


def clear() -> None:
    """Remove what was sent: the jobs that read it have ended."""
    while _sent:
        url, folder = _sent.pop()
        _bucket(url).delete_below(f"{folder}/")


def _send(url: str, path: Path, name: str) -> str:
    with path.open("rb") as content:
        _bucket(url).call("put_object", name, Body=content)
    return name


# --- on the executors -----------------------------------------------------------------------


def _reading(url: str, schema: T.StructType) -> Callable[[Rows], Rows]:
    wanted = to_arrow_schema(schema, timezone="UTC")

    def read(batches: Rows) -> Rows:
        for batch in batches:
            for name in batch.column("name").to_pylist():
                content = _bucket(url).call("get_object", name)["Body"].read()
                with pq.ParquetFile(pa.BufferReader(content)) as file:
                    known = [each.name for each in wanted if each.name in file.schema_arrow.names]
                    for part in file.iter_batches(BATCH_ROWS, columns=known):
                        yield fitted(part, wanted)

    return read


def fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The columns Spark expects, by name and in its types; those a file lacks are null."""
    columns = [
        pc.cast(batch.column(field.name), field.type, safe=False)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _writing(url: str, place: str) -> Callable[[Rows], Rows]:
    def write(batches: Rows) -> Rows:
        context: Any = TaskContext.get()
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        out = io.BytesIO()
        with pq.ParquetWriter(out, first.schema, compression="snappy") as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        partition = context.partitionId()
        name = f"{place}/{partition}-{context.taskAttemptId()}"
        _bucket(url).call("put_object", name, Body=out.getvalue())
        yield pa.RecordBatch.from_pydict(
            {"partition": pa.array([partition], pa.int32()), "name": pa.array([name])}
        )

    return write


@lru_cache(maxsize=4)
def _bucket_in(url: str, _process: int) -> Bucket:
    from storage.objects.s3_bucket import Bucket, S3Location  # boto3 is an extra

    return Bucket(S3Location.parse(url))


def _bucket(url: str) -> Bucket:
    """One client a process: Spark forks its Python workers."""
    return _bucket_in(url, os.getpid())
