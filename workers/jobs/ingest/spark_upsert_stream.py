"""UpsertStream: the batch says per key what the row is now, or that it is gone.

Within the batch the last row of a key counts. Of the operation codes only the retraction
is special; without the column every row is an upsert. Retractions carry the stored values.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ...engines.spark.columns import quoted
from ...slices.columns import POSITION, Operation, check_columns
from .spark_sql import Narrowed, as_struct, changed, operation, part, row, rows_of, same_key
from .spark_state import last_per_key, project


def upsert_stream(merging: Narrowed, prev: DataFrame | None, new: DataFrame) -> DataFrame:
    check_columns(new.columns, merging.key, "primary key")
    columns = [name for name in new.columns if name not in (merging.op, POSITION)]
    wanted = _with_code(merging, new)
    if not merging.distinct:
        wanted = last_per_key(wanted, merging.key, POSITION)
    if prev is None:
        kept = wanted.where(f"{quoted(merging.op)} != {int(Operation.RETRACT)}")
        rows = [quoted(name) for name in [*columns, POSITION]]
        return kept.selectExpr(operation(merging, Operation.APPEND), *rows)
    stored = project(merging, prev).selectExpr(
        *[quoted(name) for name in columns], f"cast(null as bigint) as {quoted(POSITION)}"
    )
    both = as_struct(wanted, "n").join(
        as_struct(stored, "s"), on=same_key("n", "s", merging.key), how="left"
    )
    side = [*columns, POSITION]
    retracts = f"{part('n', merging.op)} = {int(Operation.RETRACT)}"
    outcome = f"""
        case
            when {retracts} and s is null then null
            when {retracts} then array({row(merging, Operation.RETRACT, "s", side)})
            when s is null then array({row(merging, Operation.APPEND, "n", side)})
            when {changed(merging, "s", "n", columns)}
            then array(
                {row(merging, Operation.CORRECT_FROM, "s", side)},
                {row(merging, Operation.CORRECT_TO, "n", side)}
            )
        end
    """
    return rows_of(both, outcome, [merging.op, *side])


def _with_code(merging: Narrowed, new: DataFrame) -> DataFrame:
    op = quoted(merging.op)
    rest = [quoted(name) for name in new.columns if name != merging.op]
    code = f"coalesce(cast({op} as int), 0)" if merging.op in new.columns else "0"
    return new.selectExpr(*rest, f"{code} as {op}")
