"""The current rows of a history, from its merge state: the rows in a range of key hashes.

Rows by their key: hashes, ranges of hashes, and the last row of each key.

Problems that a merge finds in rows of the batch, and their consequences.

Findings of partitions can be joined: errors and warnings are the same however rows were
partitioned. A merge knows the positions of rows among the good rows; their numbers in the input
are known once all rows are read.

Rows produced by a merge, from the batch and from the history, with their operation codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.errors import BadInput
from odf_protocol.sources.source_options import RetractionRule
from odf_storage.datasets.integrity.healing import Hashed
from odf_storage.datasets.merge_state.comparable import Hashes, equal_values, key_hashes, numbered
from odf_storage.datasets.merge_state.state import (
    RETRACT,
    Candidates,
    MergeState,
    Segment,
    SegmentInfo,
    StateSpec,
)

from ..partitions.port import File, at_hand
from ..slices.conform import conform
from ..slices.schema import POSITION, Merging, Operation

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
ALL_HASHES = 1 << 64


def hashes_of(rows: pa.Table, key: Sequence[str]) -> Hashes:
    """Return the hash of each row's key. Raises `NotHashable`."""
    return key_hashes([rows.column(name).combine_chunks() for name in key])


def key_ranges(count: int) -> list[tuple[int, int]]:
    """Split all hashes into ranges of equal width; return the first hash of each, and the first
    after it."""
    bounds = [ALL_HASHES * at // count for at in range(count + 1)]
    return list(pairwise(bounds))


def key_range(hashes: Hashes, count: int) -> Rows:
    """Return the index of each hash's range in `key_ranges`."""
    starts = np.array([low for low, _ in key_ranges(count)][1:], np.uint64)
    return np.searchsorted(starts, hashes, "right").astype(np.int64)


def last_per_key(hashes: Hashes, keys: Callable[[Rows], pa.Table]) -> Mask:
    """Return which rows are the last of their key, given the oldest rows first.

    `keys` returns the key columns of some rows; it is called only for rows that share their hash.
    """
    last = np.ones(len(hashes), bool)
    some = sharing(hashes)
    if len(some):
        numbers = numbered(keys(some).columns)
        newest = np.zeros(1 + numbers.max(), np.int64)
        newest[numbers] = np.arange(len(numbers))  # the last of several rows of a key stays
        last[some] = False
        last[some[newest]] = True
    return last


def sharing(hashes: Hashes) -> Rows:
    """Return the rows whose hash another row has, too."""
    order = np.argsort(hashes, kind="stable")  # fast for sorted runs
    repeats = np.diff(hashes[order]) == 0
    shares = np.zeros(len(hashes), bool)
    shares[order[1:][repeats]] = True
    shares[order[:-1][repeats]] = True
    return np.flatnonzero(shares)


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


NumberOf = Callable[[int], int]
"""Returns the number of a row in the input, from 1, for its position among the good rows."""
SHOWN_ROWS = 10
"""Number of rows that an error or a warning names."""


@dataclass(frozen=True, slots=True)
class Problems:
    """The number of rows with a problem, and the position and text of the first ones in the
    input. A text continues the words "row N"."""

    count: int = 0
    first: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, positions: npt.NDArray[np.int64], text: Callable[[int], str]) -> Problems:
        """Return the problems of rows at these positions; `text` receives an index into the
        positions."""
        places = np.argsort(positions, kind="stable")[:SHOWN_ROWS]
        return cls(len(positions), tuple((int(positions[at]), text(int(at))) for at in places))

    @classmethod
    def joined(cls, parts: Iterable[Problems]) -> Problems:
        """Join the problems of all partitions."""
        count, first = 0, [(0, "")][:0]
        for part in parts:
            count += part.count
            first = nsmallest(SHOWN_ROWS, [*first, *part.first])
        return cls(count, tuple(first))

    def text(self, number_of: NumberOf) -> str:
        """Return the text of the first problems, and the number of further ones."""
        more = self.count - len(self.first)
        listed = "; ".join(f"row {number_of(at)} {text}" for at, text in self.first)
        return f"{listed}, and {more} more" if more else listed


NONE = Problems()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`refused`: rows that must not be written. `not_standing`: rows of a changelog that retract a
    row which is not current. `gave_way`: rows in whose place a later one of their key stands.
    `unclear`: rows of an upsert whose code says nothing of what stands."""

    refused: Problems = NONE
    not_standing: Problems = NONE
    gave_way: Problems = NONE
    unclear: Problems = NONE

    @classmethod
    def joined(cls, parts: Sequence[Findings]) -> Findings:
        """Join the findings of all partitions."""
        return cls(
            refused=Problems.joined(part.refused for part in parts),
            not_standing=Problems.joined(part.not_standing for part in parts),
            gave_way=Problems.joined(part.gave_way for part in parts),
            unclear=Problems.joined(part.unclear for part in parts),
        )


NOTHING = Findings()


def judged(findings: Findings, rule: RetractionRule, number_of: NumberOf) -> tuple[str, ...]:
    """Return the warnings.

    Raises:
        CannotMerge: a row must not be written; the error names the first one in the input.
        NotWhatStands: a changelog retracts rows that are not current, and the source does not ask
            for a mere warning.
    """
    for at, text in findings.refused.first[:1]:
        raise BadInput("CannotMerge", f"row {number_of(at)} {text}")
    warnings: list[str] = []
    if findings.gave_way.count:
        warnings.append(_gave_way(findings.gave_way, number_of))
    if findings.unclear.count:
        warnings.append(f"{findings.unclear.text(number_of)}: taken as what stands of its key")
    if not findings.not_standing.count:
        return tuple(warnings)
    if rule is RetractionRule.WARN:
        return (*warnings, findings.not_standing.text(number_of))
    raise BadInput(
        "NotWhatStands", findings.not_standing.text(number_of), rows=findings.not_standing.count
    )


def _gave_way(problems: Problems, number_of: NumberOf) -> str:
    count = problems.count
    shown = ", ".join(str(number_of(at)) for at, _ in problems.first)
    some = "row" if count == 1 else "rows"
    more = f" and {count - len(problems.first)} more" if count > len(problems.first) else ""
    took = "which took its place" if count == 1 else "which took their place"
    return f"{count} {some} had the key of a later row, {took}: {some} {shown}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Rows with operation code and position, unordered; rows of the history have no position."""

    rows: pa.Table
    findings: Findings = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChanges:
    """Rows of the batch, and for each the current row of its key, or -1."""

    merging: Merging
    new: pa.Table
    history: HistoryRange
    stored: Rows

    @classmethod
    def of(cls, merging: Merging, new: pa.Table, history: HistoryRange) -> HistoryChanges:
        stored = history.find(new.select(merging.key))
        return cls(merging=merging, new=new, history=history, stored=stored)

    def appended(self, at: Rows) -> pa.Table:
        return coded(self.merging, self.new.take(at), Operation.APPEND)

    def retracted(self, stored: Rows) -> pa.Table:
        """Retract rows of the history, with their stored values."""
        return self._as_stored(self._take(stored), Operation.RETRACT)

    def corrected(self, at: Rows) -> list[pa.Table]:
        """Return corrections of the rows that changed: the old rows, and the new rows."""
        at = at[self.history.by_segment(self.stored[at])]
        rows, stored = self.new.take(at), self._take(self.stored[at])
        changed = pa.array(self._changed(rows, stored))
        return [
            self._as_stored(stored.filter(changed), Operation.CORRECT_FROM),
            coded(self.merging, rows.filter(changed), Operation.CORRECT_TO),
        ]

    def _changed(self, rows: pa.Table, stored: pa.Table) -> Mask:
        """Whether any compared column differs; an event time that is null changes nothing."""
        changed = np.zeros(rows.num_rows, bool)
        for name in self.merging.compared(self.new.column_names):
            differs = ~equal_values(rows.column(name), stored.column(name))
            if name == self.merging.vocab.event_time_column:
                differs &= pc.is_valid(rows.column(name)).to_numpy()
            changed |= differs
        return changed

    def _take(self, stored: Rows) -> pa.Table:
        names = [n for n in self.new.column_names if n not in (self.merging.op, POSITION)]
        return self.history.take(stored, names)

    def _as_stored(self, rows: pa.Table, code: Operation) -> pa.Table:
        positions = pa.nulls(rows.num_rows, pa.int64())
        return coded(self.merging, rows.append_column(POSITION, positions), code)


def coded(merging: Merging, rows: pa.Table, code: Operation | pa.Array) -> pa.Table:
    """Return the rows with an operation code in the first column, and with no required field."""
    if isinstance(code, Operation):
        code = pa.array(np.full(rows.num_rows, int(code), np.int32))
    rest = [name for name in rows.column_names if name != merging.op]
    columns = [code, *(rows.column(name) for name in rest)]
    return pa.table(columns, [merging.op, *rest])


UNKNOWN = -1
"""Stands for all codes that no operation has."""


def codes_of(given: pa.Array) -> pa.Array:
    """Return the operation codes of a batch as 32-bit numbers; `UNKNOWN` for an unknown code, null
    where there is none."""
    known = pc.is_in(given, value_set=pa.array([int(code) for code in Operation], given.type))
    codes = pc.if_else(known, given, None).cast(pa.int32())
    return pc.if_else(pc.or_(known, pc.is_null(given)), codes, pa.scalar(UNKNOWN, pa.int32()))


def in_slice_types(batch: pa.RecordBatch, schema: pa.Schema, merging: Merging) -> pa.RecordBatch:
    """Convert the rows of a batch, with position, to the types of the slice's schema."""
    names = batch.schema.names
    columns = []
    for name, column in zip(names, batch.columns, strict=True):
        if name == merging.op:
            column = codes_of(column)
        elif name != POSITION:
            column = conform(column, schema.field(name).type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names)
