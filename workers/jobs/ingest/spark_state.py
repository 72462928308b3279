"""The state a changelog leads to: per key the last row, unless it was retracted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ...engines.spark.columns import col, listed, quoted
from ...slices.columns import Operation
from .spark_sql import Narrowed

LAST = "odf last"


def last_per_key(frame: DataFrame, key: tuple[str, ...], order: str) -> DataFrame:
    """Per key (nulls are equal) the row that comes last in `order`."""
    last = F.expr(f"max_by(struct({listed(frame.columns)}), {quoted(order)})").alias(LAST)
    return frame.groupBy(*[col(name) for name in key]).agg(last).selectExpr(f"{quoted(LAST)}.*")


def project(merging: Narrowed, prev: DataFrame) -> DataFrame:
    """Rows that stand after all of `prev`, with the offsets and codes they were written with."""
    if merging.projected:
        return prev
    last = last_per_key(prev, merging.key, merging.vocab.offset_column)
    return last.where(f"{quoted(merging.op)} != {int(Operation.RETRACT)}")
