"""Append: every row of the batch, without any look at the history."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ...engines.spark.columns import quoted
from ...slices.columns import Operation
from .spark_sql import Narrowed, operation


def append(merging: Narrowed, _: DataFrame | None, new: DataFrame) -> DataFrame:
    rows = [quoted(name) for name in new.columns]
    return new.selectExpr(operation(merging, Operation.APPEND), *rows)
