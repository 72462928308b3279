"""Turn changes of the result into rows of the output: operations, corrections, one order.

Equal rows that were removed and added cancel out. In each group, the first removed and the first
added row of the rest form a correction, then the second ones, and so on; the others are retractions
and appends. Rows are sorted by event time, then by all columns, nulls first. A −C is directly
before its +C, and both have the position of the +C. Spark's distribution of rows has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from ...slices.columns import Operation
from ..spark.columns import col
from .fold import difference_of
from .pieces import GROUP, SIGN

_NTH, _LEAD, _TIME, _PAIRED = "odf nth", "odf lead", "odf time", "odf paired"
ORDER = (_TIME, _LEAD, GROUP, _NTH, SIGN)


def told(
    frame: DataFrame,
    columns: Sequence[str],
    *,
    operation: str,
    event_time: str,
    only_come: bool = False,
) -> DataFrame:
    """Return changes as rows with operations, and the columns of `ORDER` to sort them.

    With `only_come`, all changes are additions: no rows form corrections or cancel out.
    """
    every = [col(name) for name in columns]
    if only_come:
        time = col(event_time) if event_time in columns else F.lit(0)
        return frame.select(
            F.lit(int(Operation.APPEND)).alias(operation),
            *every,
            time.alias(_TIME),
            F.struct(*every).alias(_LEAD),
            col(GROUP),
            F.lit(1).alias(_NTH),
            col(SIGN),
        )
    net = difference_of(frame.select(*every, col(GROUP), col(SIGN)))
    nth = F.row_number().over(Over.partitionBy(col(GROUP), col(SIGN)).orderBy(*every))
    together = Over.partitionBy(col(GROUP), col(_NTH))
    row = F.struct(*every)
    came = F.max(F.when(col(SIGN) > 0, row)).over(together)
    went = F.max(F.when(col(SIGN) < 0, row)).over(together)
    both = F.count(F.lit(1)).over(together) == 2
    rows = net.select("*", nth.alias(_NTH))
    rows = rows.select("*", F.coalesce(came, went).alias(_LEAD), both.alias(_PAIRED))
    code = (
        F.when(col(_PAIRED) & (col(SIGN) < 0), int(Operation.CORRECT_FROM))
        .when(col(_PAIRED), int(Operation.CORRECT_TO))
        .when(col(SIGN) < 0, int(Operation.RETRACT))
        .otherwise(int(Operation.APPEND))
    )
    time = F.col(f"`{_LEAD}`.`{event_time}`") if event_time in columns else F.lit(0)
    return rows.select(
        code.cast("int").alias(operation), *every, time.alias(_TIME), *map(col, ORDER[1:])
    )


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the schema of the written columns, all of them nullable."""
    known = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([field.with_nullable(True) for field in known])


def write(batches: Iterator[pa.RecordBatch], schema: pa.Schema, to: Path) -> int:
    """Write the rows in their order, and return their number."""
    count = 0
    with pq.ParquetWriter(to, schema, compression="snappy") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
            count += batch.num_rows
    return count
