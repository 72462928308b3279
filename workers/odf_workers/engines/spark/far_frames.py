"""Read and write files of Spark's frames when executors do not see the worker's disk."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import StoredFile

from ..exchange.executor_side import at_hand, deliver, workplace
from ..exchange.files import Loan, Outbox
from ..exchange.worker_side import collect, empty, lend, outbox
from .attempts import name_attempt

BATCH_ROWS = 65_536
_LENT = "link string, hash string"
_DELIVERED = "partition int, name string, hash string, etag string"

Rows = Iterator[pa.RecordBatch]


def read_lent(
    session: SparkSession, url: str, paths: Sequence[Path], schema: T.StructType
) -> DataFrame:
    """Read files that executors fetch through the bucket. The rows of a file keep their order."""
    loans = [lend(url, path) for path in paths]
    listed = session.createDataFrame([(each.link, each.hash) for each in loans], _LENT)
    read = listed.repartition(max(1, len(loans))).mapInArrow(reading(schema), schema)
    return _as_relation(session, read)


def _as_relation(session: SparkSession, frame: DataFrame) -> DataFrame:
    """Return the frame as one node of a plan, without the nodes that compute it: those of a query
    are checked, and these are not its own."""
    execution, spark = frame._jdf.queryExecution(), session._jsparkSession
    made = spark.internalCreateDataFrame(execution.toRdd(), frame._jdf.schema(), False)
    return DataFrame(made, session)


def write_delivered(frame: DataFrame, url: str, folder: Path) -> list[Path]:
    """Have executors write the frame's rows, and collect the files into a new folder. Return one
    file for each partition that has rows, in the order of the partitions.

    Raises:
        ExchangeFailed: a file differs from what its executor wrote.
    """
    box = outbox(url, folder, _most_partitions(frame))
    written = frame.mapInArrow(writing(box), _DELIVERED).collect()
    folder.mkdir(parents=True)
    files = list[Path]()
    for row in sorted(written, key=lambda row: int(row["partition"])):
        path = folder / f"part-{row['partition']:05}.parquet"
        stored = StoredFile(row["name"], Multihash.parse(row["hash"]), row["etag"])
        collect(url, stored, path)
        files.append(path)
    empty(url, box)
    return files


def reading(schema: T.StructType) -> Callable[[Rows], Rows]:
    """Return the function that turns loans into the rows of their files, in a task."""
    wanted = to_arrow_schema(schema, timezone="UTC")

    def read(batches: Rows) -> Rows:
        for batch in batches:
            for each in batch.to_pylist():
                with pq.ParquetFile(at_hand(Loan(each["link"], each["hash"]))) as file:
                    known = [each.name for each in wanted if each.name in file.schema_arrow.names]
                    for part in file.iter_batches(BATCH_ROWS, columns=known):
                        yield fitted(part, wanted)

    return read


def fitted(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return the columns that Spark expects, by name and in its types; missing ones are null."""
    columns = [
        pc.cast(batch.column(field.name), field.type, safe=False)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def writing(box: Outbox) -> Callable[[Rows], Rows]:
    """Return the function that writes the rows of a task to one file, delivers it, and yields a row
    that describes it. Without rows it writes no file."""

    def write(batches: Rows) -> Rows:
        name_attempt()
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        path = workplace(box) / f"rows-{secrets.token_hex(8)}.parquet"
        try:
            with pq.ParquetWriter(path, first.schema, compression="snappy") as writer:
                writer.write_batch(first)
                for batch in batches:
                    writer.write_batch(batch)
            stored = deliver(path, box).stored
        finally:
            path.unlink(missing_ok=True)
        if stored is None:
            raise AssertionError("unreachable: the outbox has links")
        yield _row(stored)

    return write


def _row(stored: StoredFile) -> pa.RecordBatch:
    partition = int(PurePosixPath(stored.name).name.partition("-")[0])
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([partition], pa.int32()),
            "name": pa.array([stored.name]),
            "hash": pa.array([str(stored.hash)]),
            "etag": pa.array([stored.etag]),
        }
    )


def _most_partitions(frame: DataFrame) -> int:
    """Return the largest possible number of partitions. Most plans state it; otherwise Spark has to
    prepare the rows."""
    execution: Any = frame._jdf.queryExecution()
    return int(
        execution.executedPlan().outputPartitioning().numPartitions()
        or execution.toRdd().getNumPartitions()
    )
