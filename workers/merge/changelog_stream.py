"""ChangelogStream: the batch is a ledger already; its rows pass unchanged.

Rows stay in input order per key, so that a retraction followed by an append stays one. A
correction must come as a pair, the old row directly before the new one of the same key.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from .columns import POSITION, PROBLEM, CannotMerge, Merging, Operation, check_columns, col

_CODES = [int(code) for code in Operation]


def changelog_stream(merging: Merging, _: DataFrame | None, new: DataFrame) -> DataFrame:
    check_columns(new.columns, merging.key, "primary key")
    if merging.op not in new.columns:
        raise CannotMerge(f"the batch has no operation column `{merging.op}`", column=merging.op)
    rest = [col(name) for name in new.columns if name not in (merging.op, POSITION)]
    code = col(merging.op).cast("int")
    return new.select(
        code.alias(merging.op), *rest, col(POSITION), _problem(merging, code).alias(PROBLEM)
    )


def _problem(merging: Merging, code: Column) -> Column:
    history = Window.partitionBy(*[col(name) for name in merging.key]).orderBy(col(POSITION))
    before, after = F.lag(code).over(history), F.lead(code).over(history)
    opened, closed = int(Operation.CORRECT_FROM), int(Operation.CORRECT_TO)
    alone = (code == opened) & ~after.eqNullSafe(F.lit(closed))
    alone |= (code == closed) & ~before.eqNullSafe(F.lit(opened))
    row = F.concat(F.lit("row "), (col(POSITION) + 1).cast("string"))
    return F.when(
        code.isNull() | ~code.isin(_CODES),
        F.concat(row, F.lit(" has no known operation code")),
    ).when(alone, F.concat(row, F.lit(" is one half of a correction without the other")))
