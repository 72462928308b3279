"""Compute the result of an operator from its kept rows: one function per operator, frame to frame.

Result columns have the names by which the query reads them (`k0`, `a0`, `c0`, `l0`, `r0`, …). They
include `odf group`: changes of one group in one run may form corrections.

Fold a changelog: find the rows that are left after retractions and corrections.

A folded frame says of each row whether it exists (`odf there`) and, once per set of equal rows, how
many changes found no row (`odf unmatched`), so that one computation serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812

from ..spark.catalyst import col
from .operators import AsOfJoin, IntervalJoin, Moment, Operator, Ranking, Window
from .times import AT, GROUP, SEQ, SIGN

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


PLACE = "odf place"


def result(
    operator: Operator, rows: list[DataFrame], moment: Moment, since: int | None
) -> DataFrame:
    """Return the result over the kept rows of each side, as far as it is due at a moment.

    The left rows of joins before `since` are left out.
    """
    match operator:
        case Window():
            return _window(operator, rows[0], moment)
        case Ranking():
            return _ranking(operator, rows[0])
        case IntervalJoin():
            return _interval(operator, rows[0], rows[1], moment, since)
        case AsOfJoin():
            return _as_of(operator, rows[0], rows[1], moment, since)
        case _:
            assert_never(operator)


def stays(operator: Operator, side: int, rows: DataFrame, new: Moment) -> Column:
    """Return SQL for whether a row can still matter, by criteria other than `keeps`."""
    match operator:
        case Ranking() if not operator.by_time:
            horizon = new.horizon(operator.sides[0].clock)
            order = best_first(operator)
        case AsOfJoin() if side == 1:
            horizon = new.horizon(operator.both)
            order = [col(AT).desc(), col(SEQ).desc_nulls_last(), *_all(rows)]
        case _:
            return F.lit(True)
    if horizon is None:
        return F.lit(True)
    limit = operator.limit if isinstance(operator, Ranking) else 1
    keys = [col(name) for name in operator.sides[side].bucket]
    old = Over.partitionBy(col(BUCKET), *keys, col(THERE), col(AT) < horizon).orderBy(*order)
    return (col(AT) >= horizon) | (F.row_number().over(old) <= limit)


def _before(at: int | None) -> Column:
    return F.lit(False) if at is None else col(AT) < at


def _window(operator: Window, rows: DataFrame, moment: Moment) -> DataFrame:
    due = rows.where(_before(moment.promise(operator.sides[0].clock)))
    keys = [col(name) for name in operator.keys]
    if operator.from_sums:
        finished = [
            F.expr(call.finished(f"s{at}", f"n{at}")).alias(f"a{at}")
            for at, call in enumerate(operator.calls)
        ]
        return due.select(*keys, *finished, col(BUCKET).alias(GROUP))
    often = F.explode(F.array_repeat(F.lit(1), col(COUNT).cast("int")))
    aggregates = [
        F.expr(str(call.from_rows())).alias(f"a{at}") for at, call in enumerate(operator.calls)
    ]
    every = due.withColumn("odf copy", often)
    total = every.groupBy(col(BUCKET).alias(GROUP), *keys).agg(*aggregates)
    return total.select(*keys, *[col(f"a{at}") for at in range(len(aggregates))], col(GROUP))


def _ranking(operator: Ranking, rows: DataFrame) -> DataFrame:
    keys = [col(name) for name in operator.sides[0].bucket]
    over = Over.partitionBy(col(BUCKET), *keys).orderBy(*best_first(operator))
    best = rows.withColumn(PLACE, F.row_number().over(over)).where(col(PLACE) <= operator.limit)
    group = F.xxhash64(col(BUCKET), col(PLACE)) if operator.visible else col(BUCKET)
    shown = [name for name in operator.sides[0].columns if name.startswith("c")]
    place = [col(PLACE)] if operator.visible else []
    return best.select(*[col(name) for name in shown], *place, group.alias(GROUP))


def _interval(
    operator: IntervalJoin, left: DataFrame, right: DataFrame, moment: Moment, since: int | None
) -> DataFrame:
    left = _from(left, since)
    right = _from(right, None if since is None else since + operator.lower)
    apart = col("r.at") - col("l.at")
    near = (apart >= operator.lower) & (apart <= operator.upper)
    pairs = _paired(operator, left, right, near)
    if operator.outer:
        seen = moment.promise(operator.sides[1].clock)
        alone = F.lit(False) if seen is None else col("l.at") < seen - operator.upper
        pairs = pairs.where(col("r.at").isNotNull() | alone)
    return _both_sides(operator, pairs)


def _as_of(
    operator: AsOfJoin, left: DataFrame, right: DataFrame, moment: Moment, since: int | None
) -> DataFrame:
    both = moment.promise(operator.both)
    due = _from(left, since)
    due = due.where(F.lit(False) if both is None else col(AT) <= both)
    copies = Over.partitionBy(*[col(name) for name in left.columns]).orderBy(F.lit(0))
    due = due.withColumn("odf copy", F.row_number().over(copies))
    pairs = _paired(operator, due, right, col("r.at") <= col("l.at"), "odf copy")
    left_keys = operator.sides[0].bucket
    mine = [col(name) for name in ("odf copy", *_columns(operator, 0), *left_keys, "l.at")]
    newest = [col("r.at").desc_nulls_last(), col("r.seq").desc_nulls_last()]
    newest += [col(name).asc_nulls_first() for name in _columns(operator, 1)]
    place = F.row_number().over(Over.partitionBy(*mine, col("l.seq")).orderBy(*newest))
    return _both_sides(operator, pairs.withColumn(PLACE, place).where(col(PLACE) == 1))


def _from(rows: DataFrame, at: int | None) -> DataFrame:
    """Return the rows whose results may have changed: those from a time on, or all."""
    return rows if at is None else rows.where(col(AT) >= at)


def _paired(
    operator: IntervalJoin | AsOfJoin, left: DataFrame, right: DataFrame, near: Column, *more: str
) -> DataFrame:
    """Join left and right rows with equal keys; their times are `l.at` and `r.at`."""
    sides = []
    for place, (rows, mark) in enumerate(((left, "l"), (right, "r"))):
        names = [*_columns(operator, place), *operator.sides[place].bucket]
        kept = [col(name) for name in (*names, *(more if place == 0 else ()))]
        system = [(BUCKET, "bucket"), (AT, "at"), (SEQ, "seq")]
        kept += [col(name).alias(f"{mark}.{short}") for name, short in system]
        sides.append(rows.select(*kept))
    same = col("l.bucket") == col("r.bucket")
    for one, other, safe in operator.keys:
        same = same & (col(one).eqNullSafe(col(other)) if safe else col(one) == col(other))
    return sides[0].join(sides[1], same & near, "left" if operator.outer else "inner")


def _both_sides(operator: IntervalJoin | AsOfJoin, pairs: DataFrame) -> DataFrame:
    shown = [col(name) for name in (*_columns(operator, 0), *_columns(operator, 1))]
    return pairs.select(*shown, F.xxhash64(col("l.bucket"), col("l.at")).alias(GROUP))


def _columns(operator: Operator, side: int) -> list[str]:
    """Return the columns that the query reads from a joined side."""
    return [name for name in operator.sides[side].columns if name[1:].isdigit()]


def best_first(operator: Ranking) -> list[Column]:
    order = [F.expr(name) for name, _ in operator.order]
    for at, (_, direction) in enumerate(operator.order):
        method = direction.lower().replace(" ", "_")
        order[at] = getattr(order[at], method)()
    seq = col(SEQ).desc_nulls_last() if operator.newest_first else col(SEQ).asc_nulls_first()
    return [*order, seq, *[col(name).asc_nulls_first() for name in operator.sides[0].columns]]


def _all(rows: DataFrame) -> list[Column]:
    return [col(name).asc_nulls_first() for name in rows.columns]
