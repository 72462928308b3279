"""The history with which a post's rows are compared, read from the merge state of its dataset.

The guard of snapshots: limits how much of the state may be absent from a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from odf_protocol.columns.arrow_schema import to_arrow
from odf_protocol.errors import BadInput
from odf_protocol.metadata.events import DataSlice
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.metadata.sources import MergeStrategySnapshot
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.dataset.info import local_file
from odf_storage.datasets.merge_state.state import StateSpec
from odf_storage.datasets.merge_state.store import MergeStates
from odf_storage.stores.ports.values import ObjectKind

from ...merge.history import HistoryFiles
from ...merge.strategies import merging_of, reads_history, state_of
from ...partitions.port import Way, at_hand
from ...plan.ingest import IngestPlan
from ...slices.schema import Operation
from ...slices.write import Written, operations


def history_of(
    dataset: Dataset,
    plan: IngestPlan,
    states: MergeStates,
    scratch: Path,
    way_with: Callable[[int], Way],
) -> HistoryFiles | None:
    """Return the whole history; None if there is none, or if the strategy does not read it. The
    history's files are linked into `scratch`, unless a history of that size is read in this
    process.

    Raises:
        CannotMerge: the key is not in the schema.
        StateDamaged: the state cannot be made from the chain.
    """
    if plan.schema is None or not plan.has_history or not reads_history(plan.merge):
        return None

    spec, stored = _stored(plan, plan.schema)
    links = scratch / "merge-state"

    def links_for(size: int) -> Path | None:
        return None if way_with(size).in_process else links

    local = _local(dataset, scratch / "history")
    state = states.at(dataset, plan.head, spec, stored, local, links_for=links_for)
    infos = tuple(segment.info for segment in state.segments)
    linked = links_for(sum(info.size for info in infos)) is not None
    return HistoryFiles(
        files=tuple(links / info.name for info in infos) if linked else (),
        infos=infos,
        schema=stored,
        spec=spec,
        state=state,
    )


def bring_up_to_date(
    dataset: Dataset, plan: IngestPlan, states: MergeStates, scratch: Path
) -> None:
    """Let the merge state take up all slices up to the plan's head. Raises as `history_of`."""
    if plan.schema is not None:
        spec, stored = _stored(plan, plan.schema)
        states.at(dataset, plan.head, spec, stored, _local(dataset, scratch))


def _stored(plan: IngestPlan, schema: DataSchema) -> tuple[StateSpec, pa.Schema]:
    """Return what the state keeps of slices, and the schema of its rows."""
    fields = to_arrow(schema)
    spec = state_of(plan.merge, merging_of(plan.merge, plan.vocab), fields)
    return spec, pa.schema([fields.field(name).with_nullable(True) for name in spec.names])


def _local(dataset: Dataset, folder: Path) -> Callable[[DataSlice], Path]:
    def local(data: DataSlice) -> Path:
        return local_file(dataset, ObjectKind.DATA, data.physical_hash, folder)

    return local


def lent(history: HistoryFiles | None, way: Way) -> HistoryFiles | None:
    """Return the history in the form that stages in other processes receive."""
    if history is None:
        return None
    files = zip(map(at_hand, history.files), history.infos, strict=True)
    lasting = tuple(way.file(path, lasting=info.sha256) for path, info in files)
    return replace(history, files=lasting, state=None)


FEW_ROWS = 10
"""This number of rows of a snapshot may vanish, regardless of their share."""


def check_vanished(
    plan: IngestPlan, rows: int, slices: Sequence[Written], max_percent: int
) -> None:
    """Check how much of the state is absent from a snapshot.

    A few rows may vanish unless `max_percent` is 0; an empty batch is accepted only if it is 100.

    Raises:
        RowsVanished: more than `max_percent` of the rows of the previous state vanished.
    """
    done = operations(slices)
    vanished = done[Operation.RETRACT]
    if not isinstance(plan.merge, MergeStrategySnapshot) or vanished == 0 or max_percent >= 100:
        return
    stood = rows - done[Operation.APPEND] + vanished
    few = vanished <= FEW_ROWS and max_percent > 0
    if rows == 0 or (not few and vanished * 100 > max_percent * stood):
        raise BadInput(
            "RowsVanished",
            f"{vanished} of {stood} rows are gone from the snapshot, and at most {max_percent} "
            "percent may go at once: look whether it was cut short, or allow more "
            "(maxVanishPercent)",
            vanished=vanished,
            stood=stood,
            max_vanish_percent=max_percent,
        )


def emptied_warnings(plan: IngestPlan, rows: int, done: Counter[Operation]) -> Iterator[str]:
    """Yield a warning if a snapshot without rows took back all that stood: a publisher may mean
    that, or have sent nothing by mistake."""
    gone = done[Operation.RETRACT]
    if isinstance(plan.merge, MergeStrategySnapshot) and rows == 0 and gone:
        yield f"the snapshot has no rows, so each of the {gone} that stood is retracted"
