"""Ledger: rows whose key the history has not seen.

Only keys are compared: changed values of a known key are ignored, a retracted key stays
seen, equal keys within the batch are all added, and a null in a key never matches.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ...engines.spark.columns import quoted
from ...slices.columns import check_columns
from .spark_append import append
from .spark_sql import Narrowed


def ledger(merging: Narrowed, prev: DataFrame | None, new: DataFrame) -> DataFrame:
    check_columns(new.columns, merging.key, "primary key")
    if prev is None:
        return append(merging, None, new)
    seen = {name: f"`odf seen {at}`" for at, name in enumerate(merging.key)}
    known = prev.selectExpr(*[f"{quoted(name)} as {alias}" for name, alias in seen.items()])
    met = [f"{quoted(name)} = {alias}" for name, alias in seen.items()]
    return append(merging, None, new.join(known, on=F.expr(" and ".join(met)), how="left_anti"))
