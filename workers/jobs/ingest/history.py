"""The history a batch meets, by the merge state of its dataset."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from odf_node.protocol.metadata.data import DataSlice
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.merge_state.store import MergeStates
from odf_node.storage.stores.ports.values import ObjectKind

from ...merge.history import HistoryRange
from ...merge.table import merging_of, reads_history, state_of
from ...plan.ingest import IngestPlan
from ..work.slice_files import local_file


def history_of(
    dataset: Dataset, plan: IngestPlan, schema: pa.Schema, states: MergeStates, scratch: Path
) -> HistoryRange | None:
    """All of the history, for slices of that schema; None if there is none, or if the strategy
    does not look at it.

    Raises:
        CannotMerge: the key is not in the schema.
        StateDamaged: the state cannot be made from the chain.
    """
    if not plan.has_history or not reads_history(plan.merge):
        return None

    def local(data: DataSlice) -> Path:
        return local_file(dataset, ObjectKind.DATA, data.physical_hash, scratch / "history")

    spec = state_of(plan.merge, merging_of(plan.merge, plan.vocab), schema)
    stored = pa.schema([schema.field(name).with_nullable(True) for name in spec.names])
    state = states.at(dataset, plan.head, spec, stored, local)
    return HistoryRange(state=state, spec=spec)
