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

from protocol.chain.state import Vocab
from protocol.errors import BadInput

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


def operation(code: Operation) -> Column:
    return F.lit(int(code)).cast("int")


def check_columns(columns: Sequence[str], needed: Sequence[str], what: str) -> None:
    """Raises `CannotMerge` if the list is empty or names a column the batch lacks."""
    if not needed:
        raise CannotMerge(f"the merge strategy names no {what} columns")
    for name in needed:
        if name not in columns:
            raise CannotMerge(f"the batch has no {what} column `{name}`", column=name)


def as_struct(frame: DataFrame, alias: str) -> DataFrame:
    """One struct column holding the whole row, so that two rows can stand side by side."""
    return frame.select(F.struct(*[col(name) for name in frame.columns]).alias(alias))


def same_key(left: str, right: str, key: Sequence[str]) -> Column:
    """Null-safe equality of the key columns of two struct columns."""
    condition = F.lit(True)
    for name in key:
        equal = F.col(left).getField(name).eqNullSafe(F.col(right).getField(name))
        condition = equal if name == key[0] else condition & equal
    return condition


def changed(merging: Merging, old: str, new: str, columns: Sequence[str]) -> Column:
    """Whether any compared column differs; an event time that is null changes nothing."""
    result = F.lit(False)
    for name in merging.compared(columns):
        new_value = F.col(new).getField(name)
        differs = ~new_value.eqNullSafe(F.col(old).getField(name))
        if name == merging.vocab.event_time_column:
            differs = new_value.isNotNull() & differs
        result = result | differs
    return result


def row(merging: Merging, code: Operation, side: str, columns: Sequence[str]) -> Column:
    """A row of the ledger made from a struct column."""
    values = [F.col(side).getField(name).alias(name) for name in columns]
    return F.struct(operation(code).alias(merging.op), *values)


def rows_of(frame: DataFrame, outcome: Column, columns: Sequence[str]) -> DataFrame:
    """Explode an array of rows into the columns of the ledger."""
    exploded = frame.select(F.explode(outcome).alias("r"))
    return exploded.select(*[F.col("r").getField(name).alias(name) for name in columns])
