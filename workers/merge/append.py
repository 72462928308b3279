"""Append: every row of the batch, without any look at the history."""

from __future__ import annotations

from pyspark.sql import DataFrame

from .columns import Merging, Operation, col, operation


def append(merging: Merging, _: DataFrame | None, new: DataFrame) -> DataFrame:
    rows = [col(name) for name in new.columns]
    return new.select(operation(Operation.APPEND).alias(merging.op), *rows)
