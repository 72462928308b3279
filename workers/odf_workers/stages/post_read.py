"""How the stages process a post."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..merge.history import HistoryFiles
from ..merge.order import Order
from ..merge.table import MERGE, merging_of
from ..plan.ingest import IngestPlan
from ..readers.read_split import SplitRead
from ..slices.costs import Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class PostRead:
    """How to read the rows of a post. `split` describes its file, `plan` the further processing."""

    plan: IngestPlan
    split: SplitRead
    cut: Cut
    history: HistoryFiles | None = None
    """The history with which the rows are compared."""
    max_bad_rows: int | None = None
    passes: bool = False
    """Whether a row is appended regardless of other rows of the post."""
    sorts: bool = False
    """Whether the partition sorts its rows: it has all rows of the post, and memory for them."""
    is_alone: bool = False
    """Whether one process runs all stages, so that rows are not cut into ranges."""

    @property
    def key_order(self) -> Order:
        """The beginning of the order of rows that are merged: their key."""
        return replace(self.order, columns=merging_of(self.plan.merge, self.plan.vocab).key)

    @property
    def order(self) -> Order:
        merging = merging_of(self.plan.merge, self.plan.vocab)
        columns = MERGE[type(self.plan.merge)].order(merging)
        if self.passes:  # all rows have one operation code, and none yet
            columns = tuple(name for name in columns if name != merging.op)
        return Order(
            columns=columns,
            event_time=self.plan.vocab.event_time_column,
            fallback=self.plan.source_event_time,
        )
