"""UpsertStream: the batch says per key what the row is now, or that it is gone.

Within the batch the last row of a key counts. Of the operation codes only the retraction
is special; without the column every row is an upsert. Retractions carry the stored values.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from .columns import (
    POSITION,
    Merging,
    Operation,
    as_struct,
    changed,
    check_columns,
    col,
    operation,
    row,
    rows_of,
    same_key,
)
from .state import last_per_key, project


def upsert_stream(merging: Merging, prev: DataFrame | None, new: DataFrame) -> DataFrame:
    check_columns(new.columns, merging.key, "primary key")
    columns = [name for name in new.columns if name not in (merging.op, POSITION)]
    wanted = last_per_key(_with_code(merging, new), merging.key, POSITION)
    gone = col(merging.op) == int(Operation.RETRACT)
    if prev is None:
        kept = wanted.where(~gone).drop(merging.op)
        return kept.select(
            operation(Operation.APPEND).alias(merging.op), *[col(n) for n in [*columns, POSITION]]
        )
    stored = project(merging, prev).select(*[col(name) for name in columns])
    stored = stored.withColumn(POSITION, F.lit(None).cast("bigint"))
    both = as_struct(wanted, "n").join(
        as_struct(stored, "s"), on=same_key("n", "s", merging.key), how="left"
    )
    side = [*columns, POSITION]
    retracts = F.col("n").getField(merging.op) == int(Operation.RETRACT)
    outcome = (
        F.when(
            retracts & F.col("s").isNotNull(), F.array(row(merging, Operation.RETRACT, "s", side))
        )
        .when(~retracts & F.col("s").isNull(), F.array(row(merging, Operation.APPEND, "n", side)))
        .when(
            ~retracts & changed(merging, "s", "n", columns),
            F.array(
                row(merging, Operation.CORRECT_FROM, "s", side),
                row(merging, Operation.CORRECT_TO, "n", side),
            ),
        )
    )
    return rows_of(both, outcome, [merging.op, *side])


def _with_code(merging: Merging, new: DataFrame) -> DataFrame:
    append = operation(Operation.APPEND)
    if merging.op not in new.columns:
        return new.withColumn(merging.op, append)
    code = F.coalesce(col(merging.op).cast("int"), append)
    return new.select(
        *[col(name) for name in new.columns if name != merging.op], code.alias(merging.op)
    )
