"""Columns the merge strategies share: quoting, system columns, the input position.

Names are taken as they are; a dot in one is no path. Two columns beside those of the batch
go through every strategy: the input position, which makes every order total, and a problem,
which says why a row must not be written (found where the rows are, without another pass).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.errors import BadInput

POSITION = "odf position"
PROBLEM = "odf problem"


class Operation(IntEnum):
    """What a row of the ledger does."""

    APPEND = 0
    RETRACT = 1
    CORRECT_FROM = 2
    CORRECT_TO = 3


class CannotMerge(BadInput):
    """The strategy cannot apply to this batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """What every strategy is told: names of the system columns, key and compared columns."""

    vocab: Vocab
    key: tuple[str, ...] = ()
    compare: tuple[str, ...] | None = None
    projected: bool = False
    """The history given is what stands already: one row per key, none of them retracted."""
    distinct: bool = False
    """No key occurs twice in the batch."""

    @property
    def op(self) -> str:
        return self.vocab.operation_type_column

    def compared(self, columns: Sequence[str]) -> list[str]:
        """Columns whose change counts: those asked for, else all data outside of the key."""
        system = {POSITION, self.vocab.offset_column, self.op, self.vocab.system_time_column}
        wanted = columns if self.compare is None else self.compare
        return [name for name in wanted if name not in system and name not in self.key]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def col(name: str) -> Column:
    return F.col(quoted(name))


def operation(merging: Merging, code: Operation) -> str:
    """SQL of the operation column with a fixed code."""
    return f"{int(code)} as {quoted(merging.op)}"


def check_columns(columns: Sequence[str], needed: Sequence[str], what: str) -> None:
    """Raises `CannotMerge` if the list is empty or names a column the batch lacks."""
    if not needed:
        raise CannotMerge(f"the merge strategy names no {what} columns")
    for name in needed:
        if name not in columns:
            raise CannotMerge(f"the batch has no {what} column `{name}`", column=name)


def as_struct(frame: DataFrame, alias: str) -> DataFrame:
    """One struct column holding the whole row, so that two rows can stand side by side."""
    return frame.select(F.expr(f"struct({listed(frame.columns)})").alias(alias))


def listed(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns)


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
