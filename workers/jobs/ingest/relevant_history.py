"""The history a batch meets: what of it has a say, by the merge state, else all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from odf_node.protocol.metadata.data import DataSlice
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.merge_state.key_hash import NotHashable
from odf_node.storage.datasets.merge_state.segments import StateDamaged
from odf_node.storage.datasets.merge_state.store import MergeStates
from odf_node.storage.stores.ports.values import ObjectKind

from ...merge.table import merging_of
from ...plan.ingest import IngestPlan
from ...runtime.log import LOGGER, line
from ..work.slice_files import local_file
from .merged import reads_history
from .narrow import narrow, state_of
from .stage import Staged

if TYPE_CHECKING:
    from ..work.context import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """A batch and the files of the history it meets, oldest first."""

    staged: Staged
    history: Sequence[Path] = ()
    rows: int = 0
    """Of the history."""
    projected: bool = False
    distinct: bool = False


def relevant(
    dataset: Dataset,
    plan: IngestPlan,
    staged: Staged,
    schema: pa.Schema,
    known: History,
    scratch: Path,
) -> Met:
    """What is left to merge. Raises `CannotMerge` when the key is not in the batch."""
    if not plan.has_history or not reads_history(plan.merge):
        return Met(staged=staged)
    if known.states is not None:
        try:
            return _narrowed(dataset, plan, staged, schema, known.states, scratch)
        except (NotHashable, StateDamaged) as reason:
            LOGGER.info(line("merge without state", dataset=dataset.id, reason=reason))
    folder = scratch / "history"
    slices = known.slices.of(dataset, plan.head)
    return Met(
        staged=staged,
        history=[local_file(dataset, ObjectKind.DATA, s.physical_hash, folder) for s in slices],
        rows=0 if plan.prev_offset is None else plan.prev_offset + 1,
    )


def _narrowed(
    dataset: Dataset,
    plan: IngestPlan,
    staged: Staged,
    schema: pa.Schema,
    states: MergeStates,
    scratch: Path,
) -> Met:
    merging = merging_of(plan.merge, plan.vocab)
    spec = state_of(plan.merge, merging, schema)
    stored = pa.schema([schema.field(name).with_nullable(True) for name in spec.names])

    def local(data: DataSlice) -> Path:
        return local_file(dataset, ObjectKind.DATA, data.physical_hash, scratch / "history")

    state = states.at(dataset, plan.head, spec, stored, local)
    left = narrow(staged, plan.merge, merging, state, scratch)
    history = () if left.history is None else (left.history,)
    return Met(
        staged=left.staged,
        history=history,
        rows=left.history_rows,
        projected=left.projected,
        distinct=left.distinct,
    )
