"""The current rows of a history, from its merge state: the rows in a range of key hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odf_storage.datasets.integrity.memory import Hashed
from odf_storage.datasets.merge_state.comparable import equal_values
from odf_storage.datasets.merge_state.key_hash import Hashes
from odf_storage.datasets.merge_state.segments import RETRACT, Segment, SegmentInfo
from odf_storage.datasets.merge_state.state import Candidates, MergeState, StateSpec

from ..partitions.files import File, at_hand
from .keys import ALL_HASHES, Mask, Rows, hashes_of, last_per_key

_HASHED = Hashed()
"""Segments that this process has hashed: executors run many tasks on the same segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRange:
    """Rows with key hashes from `low` to below `high`. A row is identified by its number in the
    state.

    The current row of a key is its last row, unless that is a retraction. A state without
    operations keeps every key, even if its row was retracted.
    """

    state: MergeState
    spec: StateSpec
    low: int = 0
    high: int = ALL_HASHES

    def find(self, keys: pa.Table) -> Rows:
        """Return for each key its current row, or -1. The cost depends on the number of keys."""
        stands = np.full(keys.num_rows, -1, np.int64)
        found = self.state.find(hashes_of(keys, self.spec.key))
        if len(found.asked):
            same = np.ones(len(found.asked), bool)
            asked, stored = keys.take(found.asked), self.state.take(found, self.spec.key)
            for name in self.spec.key:
                same &= equal_values(asked.column(name), stored.column(name))
            rows = self._starts()[found.segment] + found.row
            stands[found.asked[same]] = rows[same]  # older rows are first, so the last one stays
            known = np.flatnonzero(stands >= 0)
            stands[known[self._retracted(stands[known])]] = -1
        return stands

    def standing(self) -> Rows:
        """Return all current rows of the range."""
        starts = self._starts()
        parts, hashes = [], []
        for start, segment in zip(starts, self.state.segments, strict=True):
            low, high = (_first(segment.hashes, bound) for bound in (self.low, self.high))
            parts.append(np.arange(start + low, start + high))
            hashes.append(segment.hashes[low:high])
        if not parts:
            return np.zeros(0, np.int64)
        rows = np.concatenate(parts)  # older runs are first, and so are older rows of a key
        rows = rows[
            last_per_key(
                np.concatenate(hashes), lambda some: self.take(rows[some], list(self.spec.key))
            )
        ]
        return rows[~self._retracted(rows)]

    def take(self, rows: Rows, columns: Sequence[str]) -> pa.Table:
        """Return the values of these rows."""
        segment = self._segments(rows)
        return self.state.take(
            Candidates(np.arange(len(rows)), segment, rows - self._starts()[segment]), columns
        )

    def by_segment(self, rows: Rows) -> Rows:
        """Return the order in which `take` is fastest."""
        segment = self._segments(rows)
        return np.argsort(
            segment.astype(np.min_scalar_type(len(self.state.segments))), kind="stable"
        )

    def _segments(self, rows: Rows) -> Rows:
        return np.searchsorted(self._starts(), rows, "right") - 1

    def _retracted(self, rows: Rows) -> Mask:
        if self.spec.operation is None:
            return np.zeros(len(rows), bool)
        codes = self.take(rows, [self.spec.operation]).column(0).fill_null(0).to_numpy()
        return np.asarray(codes == RETRACT)

    def _starts(self) -> Rows:
        counts = [segment.info.rows for segment in self.state.segments]
        return np.cumsum([0, *counts], dtype=np.int64)[:-1]


def _first(hashes: Hashes, bound: int) -> int:
    """Return the first position with a hash that is not below the bound."""
    if bound >= ALL_HASHES:
        return len(hashes)
    return int(np.searchsorted(hashes, np.uint64(bound), "left"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFiles:
    """A state as files, for stages in other processes; in this process it is mapped, and there are
    no files."""

    files: tuple[File, ...]
    infos: tuple[SegmentInfo, ...]
    schema: pa.Schema
    spec: StateSpec
    state: MergeState | None = None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(info.size for info in self.infos)

    def opened(self, low: int, high: int) -> HistoryRange:
        """Return the history of a range. Raises `StateDamaged`."""
        state = self.state
        if state is None:
            pairs = zip(self.files, self.infos, strict=True)
            segments = [Segment.of(at_hand(file), info, hashed=_HASHED) for file, info in pairs]
            state = MergeState(segments, self.schema)
        return HistoryRange(state=state, spec=self.spec, low=low, high=high)
