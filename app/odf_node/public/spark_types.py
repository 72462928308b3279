"""Columns of a dataset in types of Spark.

Spark has no unsigned integers, dates with a time, times in milliseconds or half floats: these
become the next type that can represent all their values.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from odf_protocol.errors import BadInput
from odf_storage.datasets.read.narrowed import check_columns

WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
}
DECIMAL_DIGITS = 38
"""Largest number of digits in a decimal of Spark."""


class UnknownToSpark(BadInput):
    """A column of a type that Spark does not have."""


def spark_schema(schema: pa.Schema, names: Sequence[str] | None) -> StructType:
    """Return the Spark schema of all columns, or of these in their order. Raises `UnknownColumn`,
    `UnknownToSpark`."""
    check_columns(names or (), schema)
    chosen = schema.names if names is None else names
    fields = [schema.field(name) for name in chosen]
    wider = [pa.field(each.name, _known(each.name, each.type)) for each in fields]
    found: StructType = from_arrow_schema(pa.schema(wider))
    return found


def to_spark(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Convert the rows to exactly the types that Spark expects; times are cut to microseconds."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type, safe=False)
            for column, field in zip(batch.columns, wanted, strict=True)
        ],
        schema=wanted,
    )


def _known(name: str, given: pa.DataType) -> pa.DataType:
    wider = WIDER.get(given, given)
    if pa.types.is_decimal256(wider):
        if wider.precision > DECIMAL_DIGITS:
            raise _unknown(name, given)
        wider = pa.decimal128(wider.precision, wider.scale)
    try:
        from_arrow_schema(pa.schema([pa.field(name, wider)]))
    except PySparkTypeError as unsupported:
        raise _unknown(name, given) from unsupported
    return wider


def _unknown(name: str, given: pa.DataType) -> UnknownToSpark:
    return UnknownToSpark(
        f"Spark has no type for column {name[:100]!r}, which is {given}; leave it out by the "
        "option columns='…'",
        column=name[:100],
    )
