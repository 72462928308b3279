"""ChangelogStream: the batch is a ledger already; its rows pass unchanged.

Rows stay in input order per key, so that a retraction followed by an append stays one. A
correction must come as a pair, the old row directly before the new one of the same key.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from ...engines.spark.columns import listed, quoted
from ...slices.columns import POSITION, PROBLEM, CannotMerge, Operation, check_columns
from .spark_sql import Narrowed

_CODES = ", ".join(str(int(code)) for code in Operation)


def changelog_stream(merging: Narrowed, _: DataFrame | None, new: DataFrame) -> DataFrame:
    check_columns(new.columns, merging.key, "primary key")
    if merging.op not in new.columns:
        raise CannotMerge(f"the batch has no operation column `{merging.op}`", column=merging.op)
    rest = [quoted(name) for name in new.columns if name not in (merging.op, POSITION)]
    code = f"cast({quoted(merging.op)} as int)"
    return new.selectExpr(
        f"{code} as {quoted(merging.op)}",
        *rest,
        quoted(POSITION),
        f"{_problem(merging, code)} as {quoted(PROBLEM)}",
    )


def _problem(merging: Narrowed, code: str) -> str:
    """SQL: what is wrong with a row, or null."""
    position = quoted(POSITION)
    history = f"(partition by {listed(merging.key)} order by {position})"
    opened, closed = int(Operation.CORRECT_FROM), int(Operation.CORRECT_TO)
    row = f"concat('row ', cast({position} + 1 as string), "
    return f"""
        case
            when {code} is null or {code} not in ({_CODES})
            then {row}' has no known operation code')
            when {code} = {opened} and not (lead({code}) over {history} <=> {closed})
              or {code} = {closed} and not (lag({code}) over {history} <=> {opened})
            then {row}' is one half of a correction without the other')
        end
    """
