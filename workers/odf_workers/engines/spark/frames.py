"""Read Parquet files as Spark frames, and Spark frames as Arrow batches, in their order.

The caller gives the schema, so that Spark needs no job to infer it when it opens a file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from odf_protocol.errors import BadInput

from ...slices.conform import carrier
from ..exchange.worker_side import exchange_of
from .far_frames import read_lent, write_delivered
from .visible_files import shown

BATCH_ROWS = 65_536
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


class UnsupportedByEngine(BadInput):
    """Spark has no type for a column."""


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
    raise UnsupportedByEngine(f"column `{column}`: Spark has no type for {kind}", column=column)


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
