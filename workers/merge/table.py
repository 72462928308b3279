"""The merge strategies: what each does, and in which order its rows are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from odf_node.protocol.chain.state import Vocab
from odf_node.protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)

from ..slices.columns import POSITION, CannotMerge, Merging, check_columns
from .append import append
from .changelog_stream import changelog_stream
from .in_memory import MergeHere, snapshot_here, upsert_here
from .ledger import ledger
from .snapshot import snapshot
from .upsert_stream import upsert_stream

Merge = Callable[[Merging, DataFrame | None, DataFrame], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A merge: `merge(merging, prev, new)` gives rows with operation codes, unordered.

    `takes_operations`: the batch may carry the operation column. `reads`: what it needs of
    the history.
    """

    merge: Merge
    order: Callable[[Merging], tuple[str, ...]]
    takes_operations: bool = False
    passes: bool = False
    """Without a history, every row of the batch is appended as it is."""
    reads: Callable[[Merging], tuple[str, ...] | None] | None = None
    """Columns of the history it reads: None for the function means nothing, its None all."""
    here: MergeHere | None = None
    """The same without an engine, over a history of one row per key."""
    here_distinct: bool = False
    """Without an engine only if no key occurs twice in the batch."""


def _by_event_time(merging: Merging) -> tuple[str, ...]:
    return (merging.vocab.event_time_column, POSITION)


def _by_key(merging: Merging) -> tuple[str, ...]:
    return (*merging.key, merging.op, POSITION)


def _by_key_in_input_order(merging: Merging) -> tuple[str, ...]:
    return (*merging.key, POSITION)


MERGE: dict[type, Strategy] = {
    MergeStrategyAppend: Strategy(merge=append, order=_by_event_time, passes=True),
    MergeStrategyLedger: Strategy(
        merge=ledger, order=_by_event_time, passes=True, reads=lambda m: m.key
    ),
    MergeStrategySnapshot: Strategy(
        merge=snapshot,
        order=_by_key,
        passes=True,
        reads=lambda _: None,
        here=snapshot_here,
        here_distinct=True,
    ),
    MergeStrategyChangelogStream: Strategy(
        merge=changelog_stream, order=_by_key_in_input_order, takes_operations=True
    ),
    MergeStrategyUpsertStream: Strategy(
        merge=upsert_stream,
        order=_by_key,
        takes_operations=True,
        reads=lambda _: None,
        here=upsert_here,
    ),
}


def check_key(merging: Merging, columns: Sequence[str], rule: Strategy) -> None:
    """Raises `CannotMerge` if the strategy names columns that the batch lacks."""
    if rule.reads is not None or rule.takes_operations:
        check_columns(columns, merging.key, "primary key")
    if merging.compare is not None:
        check_columns(columns, merging.compare, "compared")


def check_operations(merging: Merging, schema: pa.Schema, rule: Strategy) -> None:
    """Raises `CannotMerge` if a batch has operation codes that are no whole numbers."""
    if not rule.takes_operations or merging.op not in schema.names:
        return
    kind = schema.field(merging.op).type
    if not pa.types.is_integer(kind):
        raise CannotMerge(
            f"the operation column `{merging.op}` is {kind}, and has to be a whole number",
            column=merging.op,
        )


def merging_of(strategy: MergeStrategy, vocab: Vocab) -> Merging:
    """The strategy's parameters in one form."""
    return Merging(
        vocab=vocab,
        key=getattr(strategy, "primary_key", ()),
        compare=getattr(strategy, "compare_columns", None),
    )
