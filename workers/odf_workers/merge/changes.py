"""Rows produced by a merge, from the batch and from the history, with their operation codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_storage.datasets.merge_state.comparable import equal_values

from ..slices.columns import POSITION, Merging, Operation
from ..slices.conform import conform
from .findings import NOTHING, Findings
from .history import HistoryRange
from .keys import Mask, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Rows with operation code and position, unordered; rows of the history have no position."""

    rows: pa.Table
    findings: Findings = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Rows of the batch, and for each the current row of its key, or -1."""

    merging: Merging
    new: pa.Table
    history: HistoryRange
    stored: Rows

    @classmethod
    def of(cls, merging: Merging, new: pa.Table, history: HistoryRange) -> Changes:
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


def codes_of(given: pa.Array) -> pa.Array:
    """Return the operation codes of a batch as 32-bit numbers; null for an unknown code."""
    known = pc.is_in(given, value_set=pa.array([int(code) for code in Operation], given.type))
    return pc.if_else(known, given, None).cast(pa.int32())


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
