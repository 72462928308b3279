"""Folding a changelog: which rows are left when retractions and corrections were applied."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812

from ...merge.columns import col
from .pieces import AT, SEQ, SIGN

BUCKET = "odf bucket"
COUNT = "odf count"
_NEW, _SUM, _LOW, _GONE, _NTH = "odf new", "odf sum", "odf low", "odf gone", "odf nth"


def folded_rows(
    before: DataFrame, changes: DataFrame, matched: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Rows left, and a frame of the number of changes that found no row.

    A retraction takes the oldest row that is equal in all matched columns; where there is
    none it comes to nothing, as if it had been read by itself.
    """
    columns = before.columns
    rows = before.withColumn(SIGN, F.lit(1)).withColumn(_NEW, F.lit(0))
    rows = rows.unionByName(
        changes.select(*[col(c) for c in columns], col(SIGN)).withColumn(_NEW, F.lit(1))
    )
    equal = Over.partitionBy(col(BUCKET), col(AT), *[col(name) for name in matched])
    told = equal.orderBy(col(_NEW), col(SEQ).asc_nulls_first(), col(SIGN).desc())
    so_far = told.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    rows = rows.withColumn(_SUM, F.sum(col(SIGN)).over(so_far))
    rows = rows.withColumn(_NTH, F.sum(F.when(col(SIGN) > 0, 1).otherwise(0)).over(so_far))
    rows = rows.withColumn(_LOW, F.least(F.lit(0), F.min(col(_SUM)).over(equal)))
    rows = rows.withColumn(_GONE, F.sum(F.when(col(SIGN) < 0, 1).otherwise(0)).over(equal))
    # Unmatched ones: as far as the sum ever fell below zero.
    left = rows.where((col(SIGN) > 0) & (col(_NTH) > col(_GONE) + col(_LOW)))
    groups = rows.where(col(_LOW) < 0).groupBy(col(BUCKET), col(AT), *[col(m) for m in matched])
    unmatched = groups.agg((-F.min(col(_LOW))).alias(COUNT)).agg(F.sum(col(COUNT)).alias(COUNT))
    return left.select(*[col(c) for c in columns]), unmatched


def folded_counts(
    before: DataFrame, changes: DataFrame, keys: Sequence[str], sums: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Rows with how often they are there (and sums over them), and the number without a row."""
    every = before.unionByName(changes)
    totals = [F.sum(col(name)).alias(name) for name in (COUNT, *sums)]
    total = every.groupBy(*[col(name) for name in (BUCKET, AT, *keys)]).agg(*totals)
    total = total.select(*[col(name) for name in before.columns])
    unmatched = total.where(col(COUNT) < 0).agg((-F.sum(col(COUNT))).alias(COUNT))
    return total.where(col(COUNT) > 0), unmatched


def difference(before: DataFrame, after: DataFrame) -> DataFrame:
    """Rows that went (`odf sign` -1) and came (1), as often as they did."""
    return difference_of(
        before.withColumn(SIGN, F.lit(-1)).unionByName(after.withColumn(SIGN, F.lit(1)))
    )


def difference_of(changes: DataFrame) -> DataFrame:
    """Changes without those that undo each other."""
    names = [col(name) for name in changes.columns if name != SIGN]
    net = changes.groupBy(*names).agg(F.sum(col(SIGN)).alias(SIGN))
    often = F.array_repeat(F.signum(col(SIGN)).cast("int"), F.abs(col(SIGN)).cast("int"))
    return net.where(col(SIGN) != 0).select(*names, F.explode(often).alias(SIGN))
