"""Snapshot: the batch is the whole state; the ledger gets what changed.

The first batch is appended as it is. Later each key is looked up on both sides: only in the
batch, appended; only in the state, retracted with its stored values; in both and changed,
corrected. From the second batch on a key may occur once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .append import append
from .columns import (
    POSITION,
    PROBLEM,
    Merging,
    Operation,
    as_struct,
    changed,
    check_columns,
    col,
    row,
    rows_of,
    same_key,
)
from .state import project


def snapshot(merging: Merging, prev: DataFrame | None, new: DataFrame) -> DataFrame:
    check_columns(new.columns, merging.key, "primary key")
    if merging.compare is not None:
        check_columns(new.columns, merging.compare, "compared")
    if prev is None:
        return append(merging, None, new)
    columns = [name for name in new.columns if name != POSITION]
    stored = project(merging, prev).select(*[col(name) for name in columns])
    stored = stored.withColumn(POSITION, F.lit(None).cast("bigint"))
    stored = stored.withColumn(PROBLEM, F.lit(None).cast("string"))
    both = as_struct(stored, "s").join(
        as_struct(_marked(merging, new), "n"), on=same_key("s", "n", merging.key), how="full_outer"
    )
    side = [*columns, POSITION, PROBLEM]
    outcome = (
        F.when(F.col("s").isNull(), F.array(row(merging, Operation.APPEND, "n", side)))
        .when(F.col("n").isNull(), F.array(row(merging, Operation.RETRACT, "s", side)))
        .when(
            changed(merging, "s", "n", columns) | F.col("n").getField(PROBLEM).isNotNull(),
            F.array(
                row(merging, Operation.CORRECT_FROM, "s", side),
                row(merging, Operation.CORRECT_TO, "n", side),
            ),
        )
    )
    return rows_of(both, outcome, [merging.op, *side])


def _marked(merging: Merging, new: DataFrame) -> DataFrame:
    """The batch, with a problem on rows whose key occurs more than once."""
    same = Window.partitionBy(*[col(name) for name in merging.key])
    shown = F.to_json(F.struct(*[col(name) for name in merging.key]))
    problem = F.concat(F.lit("the snapshot holds the key more than once: "), shown)
    return new.withColumn(PROBLEM, F.when(F.count(F.lit(1)).over(same) > 1, problem))
