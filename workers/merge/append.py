"""Append: every row of the batch, without any look at the history."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ..slices.columns import Merging, Operation, operation, quoted


def append(merging: Merging, _: DataFrame | None, new: DataFrame) -> DataFrame:
    rows = [quoted(name) for name in new.columns]
    return new.selectExpr(operation(merging, Operation.APPEND), *rows)
