"""SQL that the merges of DataFrames share.

A problem goes through every merge: it says why a row must not be written, found where the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ...engines.spark.columns import listed, quoted
from ...slices.columns import Merging, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed(Merging):
    """Merging, and what is known of history and batch."""

    projected: bool = False
    """The history given is what stands already: one row per key, none of them retracted."""
    distinct: bool = False
    """No key occurs twice in the batch."""


def operation(merging: Merging, code: Operation) -> str:
    """SQL of the operation column with a fixed code."""
    return f"{int(code)} as {quoted(merging.op)}"


def as_struct(frame: DataFrame, alias: str) -> DataFrame:
    """One struct column holding the whole row, so that two rows can stand side by side."""
    return frame.select(F.expr(f"struct({listed(frame.columns)})").alias(alias))


def part(side: str, name: str) -> str:
    """SQL of a member of a struct column."""
    return f"{side}.{quoted(name)}"


def same_key(left: str, right: str, key: Sequence[str]) -> Column:
    """Null-safe equality of the key columns of two struct columns."""
    equal = [f"{part(left, name)} <=> {part(right, name)}" for name in key]
    return F.expr(" and ".join(equal))


def changed(merging: Merging, old: str, new: str, columns: Sequence[str]) -> str:
    """SQL: whether any compared column differs; an event time that is null changes nothing."""
    differs = ["false"]
    for name in merging.compared(columns):
        test = f"not ({part(new, name)} <=> {part(old, name)})"
        if name == merging.vocab.event_time_column:
            test = f"({part(new, name)} is not null and {test})"
        differs.append(test)
    return f"({' or '.join(differs)})"


def row(merging: Merging, code: Operation, side: str, columns: Sequence[str]) -> str:
    """SQL of a row of the ledger made from a struct column."""
    values = [f"{part(side, name)} as {quoted(name)}" for name in columns]
    return f"struct({', '.join([f'{int(code)} as {quoted(merging.op)}', *values])})"


def rows_of(frame: DataFrame, outcome: str, columns: Sequence[str]) -> DataFrame:
    """Explode an array of rows (SQL) into the columns of the ledger."""
    exploded = frame.select(F.expr(outcome).alias("rows")).selectExpr("explode(rows) as r")
    return exploded.selectExpr("r.*").selectExpr(*[quoted(name) for name in columns])
