"""Common parts of merges and writers: operation codes, system columns, the input position.

Rows keep their position in the input through every merge, which makes every order total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from odf_protocol.chain.state import Vocab
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant

POSITION = "odf position"


class Operation(IntEnum):
    """The operation of a row in the ledger."""

    APPEND = 0
    RETRACT = 1
    CORRECT_FROM = 2
    CORRECT_TO = 3


class CannotMerge(BadInput):
    """The strategy cannot be applied to this batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """Input of every merge strategy: names of the system columns, key and compared columns."""

    vocab: Vocab
    key: tuple[str, ...] = ()
    compare: tuple[str, ...] | None = None
    source_event_time: Instant | None = None
    """Event time that rows without one receive when they are written. None: the writer knows."""

    @property
    def op(self) -> str:
        return self.vocab.operation_type_column

    def compared(self, columns: Sequence[str]) -> list[str]:
        """Return the columns whose change counts: the requested ones, else all data outside the
        key."""
        system = {POSITION, self.vocab.offset_column, self.op, self.vocab.system_time_column}
        wanted = columns if self.compare is None else self.compare
        return [name for name in wanted if name not in system and name not in self.key]


def check_columns(columns: Sequence[str], needed: Sequence[str], what: str) -> None:
    """Raise `CannotMerge` if the list is empty or names a column that the batch lacks."""
    if not needed:
        raise CannotMerge(f"the merge strategy names no {what} columns")
    for name in needed:
        if name not in columns:
            raise CannotMerge(f"the batch has no {what} column `{name}`", column=name)
