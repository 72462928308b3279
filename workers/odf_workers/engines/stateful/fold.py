"""Fold a changelog: find the rows that are left after retractions and corrections.

A folded frame says of each row whether it exists (`odf there`) and, once per set of equal rows, how
many changes found no row (`odf unmatched`), so that one computation serves both.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812

from ..spark.columns import col
from .pieces import AT, GROUP, SEQ, SIGN

BUCKET = "odf bucket"
COUNT = "odf count"
THERE = "odf there"
UNMATCHED = "odf unmatched"
_NEW, _SUM, _LOW, _GONE, _NTH = "odf new", "odf sum", "odf low", "odf gone", "odf nth"


def together(one: DataFrame, other: DataFrame, by: str | None = None) -> DataFrame:
    """Return the rows of both: in one task if the session has one partition, else partitioned by
    the column, if one is given."""
    rows = one.union(other)
    if rows.sparkSession.conf.get("spark.sql.shuffle.partitions") == "1":
        return rows.coalesce(1)
    return rows if by is None else rows.repartition(col(by))


def merely_added(before: DataFrame, changes: DataFrame) -> DataFrame:
    """Return the rows left if no change removes a row."""
    new = changes.select(*[col(name) for name in before.schema.names])
    return together(before, new).select(
        "*", F.lit(True).alias(THERE), F.lit(0).cast("bigint").alias(UNMATCHED)
    )


def folded_rows(before: DataFrame, changes: DataFrame, matched: Sequence[str]) -> DataFrame:
    """Return the rows left, each separately.

    A retraction removes the oldest row that is equal in all matched columns. If there is none, the
    retraction has no effect but to be counted as unmatched.
    """
    columns = [col(name) for name in before.schema.names]
    kept = before.select(*columns, F.lit(1).alias(SIGN), F.lit(0).alias(_NEW))
    rows = together(kept, changes.select(*columns, col(SIGN), F.lit(1).alias(_NEW)))
    equal = Over.partitionBy(col(BUCKET), col(AT), *[col(name) for name in matched])
    told = equal.orderBy(col(_NEW), col(SEQ).asc_nulls_first(), col(SIGN).desc())
    so_far = told.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    came, went = F.when(col(SIGN) > 0, 1).otherwise(0), F.when(col(SIGN) < 0, 1).otherwise(0)
    rows = rows.select(
        "*",
        F.sum(col(SIGN)).over(so_far).alias(_SUM),
        F.sum(came).over(so_far).alias(_NTH),
        F.sum(went).over(equal).alias(_GONE),
    )
    # The lowest sum below zero is the number of retractions that found no row.
    rows = rows.select("*", F.least(F.lit(0), F.min(col(_SUM)).over(equal)).alias(_LOW))
    there = (col(SIGN) > 0) & (col(_NTH) > col(_GONE) + col(_LOW))
    first = F.row_number().over(told) == 1
    unmatched = F.when(first, -col(_LOW)).otherwise(0).cast("bigint")
    found = rows.select(*columns, there.alias(THERE), unmatched.alias(UNMATCHED))
    return found.where(col(THERE) | (col(UNMATCHED) > 0))


def folded_counts(
    before: DataFrame, changes: DataFrame, keys: Sequence[str], sums: Sequence[str]
) -> DataFrame:
    """Return the rows left, each once with its count, and with sums over its copies."""
    totals = [F.sum(col(name)).alias(name) for name in (COUNT, *sums)]
    by = (BUCKET, AT, *keys)
    columns = [col(name) for name in (*by, COUNT, *sums)]
    rows = together(before.select(*columns), changes.select(*columns))
    return counted(rows.groupBy(*[col(name) for name in by]).agg(*totals))


def counted(total: DataFrame) -> DataFrame:
    """Return the rows left of a frame whose count is additions less removals."""
    unmatched = F.greatest(F.lit(0), -col(COUNT)).cast("bigint").alias(UNMATCHED)
    return total.select("*", (col(COUNT) > 0).alias(THERE), unmatched).where(col(COUNT) != 0)


def difference(before: DataFrame, after: DataFrame) -> DataFrame:
    """Return the removed (`odf sign` -1) and added (1) rows, each as often as it changed."""
    went = before.select("*", F.lit(-1).alias(SIGN))
    # All later grouping is within these groups, so Spark need not shuffle the rows again.
    return difference_of(together(went, all_come(after), by=GROUP))


def all_come(rows: DataFrame) -> DataFrame:
    """Return all rows as added ones, for the case that there were none before."""
    return rows.select("*", F.lit(1).alias(SIGN))


def difference_of(changes: DataFrame) -> DataFrame:
    """Return the changes without those that cancel out."""
    names = [col(name) for name in changes.schema.names if name != SIGN]
    net = changes.groupBy(*names).agg(F.sum(col(SIGN)).alias(SIGN))
    often = F.array_repeat(F.signum(col(SIGN)).cast("int"), F.abs(col(SIGN)).cast("int"))
    return net.where(col(SIGN) != 0).select(*names, F.explode(often).alias(SIGN))
