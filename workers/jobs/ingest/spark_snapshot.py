"""Snapshot: the batch is the whole state; the ledger gets what changed.

The first batch is appended as it is. Later each key is looked up on both sides: only in the
batch, appended; only in the state, retracted with its stored values; in both and changed,
corrected. From the second batch on a key may occur once.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ...engines.spark.columns import listed, quoted
from ...slices.columns import POSITION, PROBLEM, Operation, check_columns
from .spark_append import append
from .spark_sql import Narrowed, as_struct, changed, part, row, rows_of, same_key
from .spark_state import project


def snapshot(merging: Narrowed, prev: DataFrame | None, new: DataFrame) -> DataFrame:
    check_columns(new.columns, merging.key, "primary key")
    if merging.compare is not None:
        check_columns(new.columns, merging.compare, "compared")
    if prev is None:
        return append(merging, None, new)
    columns = [name for name in new.columns if name != POSITION]
    stored = project(merging, prev).selectExpr(
        *[quoted(name) for name in columns],
        f"cast(null as bigint) as {quoted(POSITION)}",
        f"cast(null as string) as {quoted(PROBLEM)}",
    )
    both = as_struct(stored, "s").join(
        as_struct(_marked(merging, new), "n"), on=same_key("s", "n", merging.key), how="full_outer"
    )
    side = [*columns, POSITION, PROBLEM]
    outcome = f"""
        case
            when s is null then array({row(merging, Operation.APPEND, "n", side)})
            when n is null then array({row(merging, Operation.RETRACT, "s", side)})
            when {changed(merging, "s", "n", columns)} or {part("n", PROBLEM)} is not null
            then array(
                {row(merging, Operation.CORRECT_FROM, "s", side)},
                {row(merging, Operation.CORRECT_TO, "n", side)}
            )
        end
    """
    return rows_of(both, outcome, [merging.op, *side])


def _marked(merging: Narrowed, new: DataFrame) -> DataFrame:
    """The batch, with a problem on rows whose key occurs more than once."""
    rows = [quoted(name) for name in new.columns]
    if merging.distinct:
        return new.selectExpr(*rows, f"cast(null as string) as {quoted(PROBLEM)}")
    key = listed(merging.key)
    problem = f"""
        case when count(1) over (partition by {key}) > 1
        then concat('the snapshot holds the key more than once: ', to_json(struct({key}))) end
    """
    return new.selectExpr(*rows, f"{problem} as {quoted(PROBLEM)}")
