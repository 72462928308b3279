"""The merge strategies: the function of each, and the order in which its rows are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf_storage.datasets.merge_state.state import StateSpec

from ..slices.columns import POSITION, CannotMerge, Merging, check_columns
from .append import append
from .changelog_stream import changelog_stream
from .changes import Merged
from .history import HistoryRange
from .ledger import ledger
from .snapshot import snapshot
from .upsert_stream import upsert_stream

Merge = Callable[[Merging, pa.Table, HistoryRange | None], Merged]
"""Merges the rows of a batch (with their position, in the types of the slice) with the history of
their keys, or None if there is no history. It receives all rows of a key together, unless the
strategy decides row by row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A merge function, and the columns by which its rows are sorted."""

    merge: Merge
    order: Callable[[Merging], tuple[str, ...]]
    takes_operations: bool = False
    """Whether the batch may have the operation column."""
    needs_operations: bool = False
    passes: bool = False
    """Whether every row of the batch is appended unchanged if there is no history, regardless of
    others."""
    by_row: bool = False
    """Whether the history alone decides about a row of the batch, whatever other rows there are."""
    reads_history: bool = True
    """Whether rows are compared with the current rows of their key."""
    reads_all: bool = False
    """Whether rows are compared with all current rows."""
    knows_keys_only: bool = False
    """Whether the strategy reads only keys of the history, including those of retracted rows."""


def _by_event_time(merging: Merging) -> tuple[str, ...]:
    return (merging.vocab.event_time_column, POSITION)


def _by_key(merging: Merging) -> tuple[str, ...]:
    return (*merging.key, merging.op, POSITION)


def _by_key_in_input_order(merging: Merging) -> tuple[str, ...]:
    return (*merging.key, POSITION)


MERGE: dict[type, Strategy] = {
    MergeStrategyAppend: Strategy(
        merge=append, order=_by_event_time, passes=True, reads_history=False
    ),
    MergeStrategyLedger: Strategy(
        merge=ledger, order=_by_event_time, passes=True, by_row=True, knows_keys_only=True
    ),
    MergeStrategySnapshot: Strategy(merge=snapshot, order=_by_key, reads_all=True),
    MergeStrategyChangelogStream: Strategy(
        merge=changelog_stream,
        order=_by_key_in_input_order,
        takes_operations=True,
        needs_operations=True,
    ),
    MergeStrategyUpsertStream: Strategy(merge=upsert_stream, order=_by_key, takes_operations=True),
}


def reads_history(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].reads_history


def bytes_of_all(strategy: MergeStrategy, history: int) -> int:
    """Return the size of the history if the strategy reads all of it; 0 if it only looks up
    keys."""
    return history if MERGE[type(strategy)].reads_all else 0


def takes_operations(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].takes_operations


def merging_of(strategy: MergeStrategy, vocab: Vocab) -> Merging:
    """Return the strategy's parameters in a common form."""
    return Merging(
        vocab=vocab,
        key=getattr(strategy, "primary_key", ()),
        compare=getattr(strategy, "compare_columns", None),
    )


def state_of(strategy: MergeStrategy, merging: Merging, schema: pa.Schema) -> StateSpec:
    """Return what the state of a strategy keeps of slices with this schema. Raises
    `CannotMerge`."""
    check_columns(schema.names, merging.key, "primary key")
    keys_only = MERGE[type(strategy)].knows_keys_only
    every = [name for name in schema.names if name != merging.vocab.system_time_column]
    names = merging.key if keys_only else every
    return StateSpec(
        key=merging.key,
        columns=tuple((name, str(schema.field(name).type)) for name in names),
        operation=None if keys_only else merging.op,
    )


def check_batch(strategy: MergeStrategy, merging: Merging, schema: pa.Schema) -> None:
    """Raise `CannotMerge` if a batch lacks columns that the strategy names, or has operation codes
    that are not whole numbers."""
    rule = MERGE[type(strategy)]
    if rule.reads_history:
        check_columns(schema.names, merging.key, "primary key")
    if merging.compare is not None:
        check_columns(schema.names, merging.compare, "compared")
    if merging.op not in schema.names:
        if rule.needs_operations:
            raise CannotMerge(
                f"the batch has no operation column `{merging.op}`", column=merging.op
            )
        return
    kind = schema.field(merging.op).type
    if rule.takes_operations and not pa.types.is_integer(kind):
        raise CannotMerge(
            f"the operation column `{merging.op}` is {kind}, and has to be a whole number",
            column=merging.op,
        )
