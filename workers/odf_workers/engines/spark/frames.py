"""Read Parquet files as Spark frames, and Spark frames as Arrow batches, in their order.

The caller gives the schema, so that Spark needs no job to infer it when it opens a file.

The running attempt at a partition, by which the files that a task delivers are named.

Read and write files of Spark's frames when executors do not see the worker's disk.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from odf_protocol.errors import BadInput
from odf_protocol.multihash import Multihash
from odf_storage.stores.ports.values import StoredFile

from ...slices.conform import carrier
from ..exchange.links import Loan, Outbox, at_hand, begin, deliver, workplace
from ..exchange.worker_side import collect, empty, exchange_of, lend, outbox
from .jvm import shown


def name_attempt() -> None:
    """Name the files that this task delivers from now on; outside of a task do nothing."""
    if (task := TaskContext.get()) is not None:
        begin(task.partitionId(), task.attemptNumber())


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


_SCALARS: tuple[tuple[str, T.DataType], ...] = (
    ("bool", T.BooleanType()),
    ("int8", T.ByteType()),
    ("int16", T.ShortType()),
    ("int32", T.IntegerType()),
    ("int64", T.LongType()),
    ("uint8", T.ShortType()),
    ("uint16", T.IntegerType()),
    ("uint32", T.LongType()),
    ("uint64", T.DecimalType(20, 0)),
    ("float", T.FloatType()),
    ("double", T.DoubleType()),
    ("string", T.StringType()),
    ("large_string", T.StringType()),
    ("string_view", T.StringType()),
    ("binary", T.BinaryType()),
    ("large_binary", T.BinaryType()),
    ("binary_view", T.BinaryType()),
    ("date32[day]", T.DateType()),
    ("date64[ms]", T.DateType()),
)
_BY_NAME = dict(_SCALARS)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def spark_type(kind: pa.DataType, *, column: str) -> T.DataType:
    """Return the Spark type for a stored column of this type. Raise `UnsupportedByEngine`."""
    kind = carrier(kind)
    if (known := _BY_NAME.get(str(kind))) is not None:
        return known
    if pa.types.is_decimal(kind):
        return T.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return T.TimestampType()
    if pa.types.is_duration(kind):
        return T.LongType()
    if pa.types.is_fixed_size_binary(kind):
        return T.BinaryType()
    if any(is_one(kind) for is_one in _LISTS):
        return T.ArrayType(spark_type(kind.value_type, column=column))
    if pa.types.is_struct(kind):
        members = [kind.field(at) for at in range(kind.num_fields)]
        return T.StructType(
            [T.StructField(f.name, spark_type(f.type, column=column)) for f in members]
        )
    if pa.types.is_map(kind):
        key, item = kind.key_type, kind.item_type
        return T.MapType(spark_type(key, column=column), spark_type(item, column=column))
    raise BadInput(
        "UnsupportedByEngine", f"column `{column}`: Spark has no type for {kind}", column=column
    )


def spark_schema(schema: pa.Schema) -> T.StructType:
    return T.StructType([T.StructField(f.name, spark_type(f.type, column=f.name)) for f in schema])


def read_parquet(session: SparkSession, paths: Sequence[Path], schema: pa.Schema) -> DataFrame:
    """Read files, with columns by name. A column that a file lacks is null in its rows."""
    return read_files(session, paths, spark_schema(schema))


def read_files(session: SparkSession, paths: Sequence[Path], schema: T.StructType) -> DataFrame:
    """Read files as `read_parquet` does, by a schema of Spark types."""
    if paths and (url := exchange_of()) is not None:
        return read_lent(session, url, paths, schema)
    if _has_floats(schema):
        session.conf.set("spark.sql.parquet.filterPushdown", "false")
    return session.read.schema(schema).parquet(*[str(path) for path in shown(paths)])


def _has_floats(kind: T.DataType) -> bool:
    """Return whether the type is or has floats. Spark trusts bounds in footers, which leave NaN
    out, and takes -0.0 in a dictionary for another number than 0.0."""
    if isinstance(kind, T.StructType):
        return any(_has_floats(field.dataType) for field in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _has_floats(kind.elementType)
    if isinstance(kind, T.MapType):
        return _has_floats(kind.keyType) or _has_floats(kind.valueType)
    return isinstance(kind, T.FractionalType) and not isinstance(kind, T.DecimalType)


def written_batches(frame: DataFrame, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Yield the frame's rows in the order of its partitions, through temporary files."""
    for part in written_files(frame, scratch):
        with pq.ParquetFile(part) as file:
            yield from file.iter_batches(BATCH_ROWS)
        part.unlink()


def written_files(frame: DataFrame, scratch: Path, name: str = "sorted") -> list[Path]:
    """Write the frame's rows to one file per partition, and return the files in the order of the
    partitions. The files are in the folder `name` of `scratch`, whose old content is removed.

    Compression is Snappy, because Arrow cannot read lz4 data that Spark wrote in several blocks.
    """
    folder = scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    if (url := exchange_of()) is not None:
        return write_delivered(frame, url, folder)
    frame.write.option("compression", "snappy").parquet(str(folder))
    return sorted(folder.glob("part-*.parquet"))
