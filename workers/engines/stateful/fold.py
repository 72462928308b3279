"""Folding a changelog: which rows are left when retractions and corrections were applied.

Folded frames tell of every row whether it is there (`odf there`) and, once per case, how many
changes found no row (`odf unmatched`), so that one computation serves both.
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
    """The rows of both: in one task if that is how the session computes, else put by a column."""
    rows = one.union(other)
    if rows.sparkSession.conf.get("spark.sql.shuffle.partitions") == "1":
        return rows.coalesce(1)
    return rows if by is None else rows.repartition(col(by))


def merely_added(before: DataFrame, changes: DataFrame) -> DataFrame:
    """Rows left when nothing goes."""
    new = changes.select(*[col(name) for name in before.schema.names])
    return together(before, new).select(
        "*", F.lit(True).alias(THERE), F.lit(0).cast("bigint").alias(UNMATCHED)
    )


def folded_rows(before: DataFrame, changes: DataFrame, matched: Sequence[str]) -> DataFrame:
    """Rows left, one by one.

    A retraction takes the oldest row that is equal in all matched columns; where there is
    none it comes to nothing, as if it had been read by itself.
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
    # As often as the sum ever fell below zero, nothing was there to go.
    rows = rows.select("*", F.least(F.lit(0), F.min(col(_SUM)).over(equal)).alias(_LOW))
    there = (col(SIGN) > 0) & (col(_NTH) > col(_GONE) + col(_LOW))
    first = F.row_number().over(told) == 1
    unmatched = F.when(first, -col(_LOW)).otherwise(0).cast("bigint")
    found = rows.select(*columns, there.alias(THERE), unmatched.alias(UNMATCHED))
    return found.where(col(THERE) | (col(UNMATCHED) > 0))


def folded_counts(
    before: DataFrame, changes: DataFrame, keys: Sequence[str], sums: Sequence[str]
) -> DataFrame:
    """Rows left with how often they are there, and sums over them."""
    totals = [F.sum(col(name)).alias(name) for name in (COUNT, *sums)]
    by = (BUCKET, AT, *keys)
    columns = [col(name) for name in (*by, COUNT, *sums)]
    rows = together(before.select(*columns), changes.select(*columns))
    return counted(rows.groupBy(*[col(name) for name in by]).agg(*totals))


def counted(total: DataFrame) -> DataFrame:
    """Rows left of those that are told with how often they came more than they went."""
    unmatched = F.greatest(F.lit(0), -col(COUNT)).cast("bigint").alias(UNMATCHED)
    return total.select("*", (col(COUNT) > 0).alias(THERE), unmatched).where(col(COUNT) != 0)


def difference(before: DataFrame, after: DataFrame) -> DataFrame:
    """Rows that went (`odf sign` -1) and came (1), as often as they did."""
    went = before.select("*", F.lit(-1).alias(SIGN))
    # Whatever is grouped from here on is grouped within these: nothing has to be moved again.
    return difference_of(together(went, all_come(after), by=GROUP))


def all_come(rows: DataFrame) -> DataFrame:
    """The same where there was nothing before."""
    return rows.select("*", F.lit(1).alias(SIGN))


def difference_of(changes: DataFrame) -> DataFrame:
    """Changes without those that undo each other."""
    names = [col(name) for name in changes.schema.names if name != SIGN]
    net = changes.groupBy(*names).agg(F.sum(col(SIGN)).alias(SIGN))
    often = F.array_repeat(F.signum(col(SIGN)).cast("int"), F.abs(col(SIGN)).cast("int"))
    return net.where(col(SIGN) != 0).select(*names, F.explode(often).alias(SIGN))
