"""Histories as merges see them, made of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from odf_protocol.metadata.sources import MergeStrategy
from odf_storage.datasets.merge_state.state import (
    MergeState,
    Segment,
    StateSpec,
    latest_rows,
    write_segments,
)
from odf_workers.merge.history import HistoryRange
from odf_workers.merge.strategies import state_of
from odf_workers.slices.schema import Merging


def history_of_rows(
    slices: Sequence[pa.Table], strategy: MergeStrategy, merging: Merging, folder: Path
) -> HistoryRange:
    """The history of those slices, oldest first, each a run of its own."""
    spec: StateSpec = state_of(strategy, merging, slices[0].schema)
    segments = []
    for rows in slices:
        table, hashes = latest_rows(rows.select(spec.names), spec, oldest=False)
        segments += [Segment.map(folder, info) for info in write_segments(folder, table, hashes)]
    schema = pa.schema([slices[0].schema.field(name) for name in spec.names])
    return HistoryRange(state=MergeState(segments, schema), spec=spec)
