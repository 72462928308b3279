"""UpsertStream and Snapshot without an engine, of batches and histories that fit memory.

They give the rows that `upsert_stream.py` and `snapshot.py` give, where Arrow and Spark agree on
what is equal (`alike.py`), and where the history is one row per key. A Spark job takes half a
second to begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..slices.columns import POSITION, Merging, Operation, check_columns
from ..slices.frame import nullable

Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]
MergeHere = Callable[[Merging, pa.Table | None, pa.Table], pa.Table]
_WIDEST = 1 << 62


def upsert_here(merging: Merging, prev: pa.Table | None, new: pa.Table) -> pa.Table:
    """Rows of an UpsertStream, unordered."""
    check_columns(new.column_names, merging.key, "primary key")
    sides = _Sides.of(merging, prev, new)
    chosen = _last_of_each(sides.new_keys, new.column(POSITION).to_numpy())
    stored = sides.stored_for(chosen)
    if merging.op in new.column_names:
        codes = pc.fill_null(pc.cast(new.column(merging.op), pa.int32()), 0).to_numpy()[chosen]
    else:
        codes = np.zeros(len(chosen), np.int32)
    retracts, known = codes == int(Operation.RETRACT), stored >= 0
    return pa.concat_tables(
        [
            sides.stored_rows(Operation.RETRACT, stored[retracts & known]),
            sides.new_rows(Operation.APPEND, chosen[~retracts & ~known]),
            *sides.corrections(chosen[~retracts & known], stored[~retracts & known]),
        ]
    )


def snapshot_here(merging: Merging, prev: pa.Table | None, new: pa.Table) -> pa.Table:
    """Rows of a Snapshot whose keys are distinct, unordered."""
    check_columns(new.column_names, merging.key, "primary key")
    if merging.compare is not None:
        check_columns(new.column_names, merging.compare, "compared")
    sides = _Sides.of(merging, prev, new)
    every = np.arange(new.num_rows)
    stored = sides.stored_for(every)
    known = stored >= 0
    gone = np.ones(sides.prev.num_rows, np.bool_)
    gone[stored[known]] = False
    return pa.concat_tables(
        [
            sides.stored_rows(Operation.RETRACT, np.flatnonzero(gone)),
            sides.new_rows(Operation.APPEND, every[~known]),
            *sides.corrections(every[known], stored[known]),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """Both sides of a merge, in the same columns, with one number for equal keys."""

    merging: Merging
    prev: pa.Table
    new: pa.Table
    positions: pa.ChunkedArray
    prev_keys: Indices
    new_keys: Indices

    @classmethod
    def of(cls, merging: Merging, prev: pa.Table | None, new: pa.Table) -> _Sides:
        names = [name for name in new.column_names if name not in (merging.op, POSITION)]
        rows = new.select(names)
        rows = rows.cast(nullable(rows.schema))  # stored rows may lack what the batch requires
        stored = rows.schema.empty_table() if prev is None else prev.select(names).cast(rows.schema)
        both = pa.concat_tables([stored, rows])
        keys = _numbered([both.column(name) for name in merging.key])
        return cls(
            merging=merging,
            prev=stored,
            new=rows,
            positions=new.column(POSITION),
            prev_keys=keys[: stored.num_rows],
            new_keys=keys[stored.num_rows :],
        )

    def stored_for(self, rows: Indices) -> Indices:
        """Where in the history the keys of these rows are; -1 for those that are not."""
        keys = self.new_keys[rows]
        size = 1 + max(self.prev_keys.max(initial=-1), keys.max(initial=-1))
        places = np.full(size, -1, np.int64)
        places[self.prev_keys] = np.arange(len(self.prev_keys))
        return places[keys]

    def stored_rows(self, code: Operation, rows: Indices) -> pa.Table:
        return self._coded(self.prev, code, rows, pa.nulls(len(rows), pa.int64()))

    def new_rows(self, code: Operation, rows: Indices) -> pa.Table:
        return self._coded(self.new, code, rows, self.positions.take(pa.array(rows)))

    def corrections(self, rows: Indices, stored: Indices) -> tuple[pa.Table, pa.Table]:
        """Of rows that are on both sides, those that differ: as they were, and as they are."""
        differs = self._differs(rows, stored)
        return (
            self.stored_rows(Operation.CORRECT_FROM, stored[differs]),
            self.new_rows(Operation.CORRECT_TO, rows[differs]),
        )

    def _differs(self, rows: Indices, stored: Indices) -> Mask:
        """Whether any compared column does; an event time that is null changes nothing."""
        found = np.zeros(len(rows), np.bool_)
        at_new, at_stored = pa.array(rows), pa.array(stored)
        for name in self.merging.compared(self.new.column_names):
            is_, was = self.new.column(name).take(at_new), self.prev.column(name).take(at_stored)
            other = ~_same(is_, was)
            if name == self.merging.vocab.event_time_column:
                other &= _flags(pc.is_valid(is_))
            found |= other
        return found

    def _coded(
        self, side: pa.Table, code: Operation, rows: Indices, positions: pa.Array | pa.ChunkedArray
    ) -> pa.Table:
        taken = side.take(pa.array(rows))
        codes = pa.array(np.full(len(rows), int(code), np.int32))
        return taken.append_column(self.merging.op, codes).append_column(POSITION, positions)


def _same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Null-safe equality; as in Spark, NaN equals itself."""
    same = pc.fill_null(pc.equal(left, right), False)
    same = pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))
    if pa.types.is_floating(left.type):
        nans = pc.and_(pc.is_nan(left), pc.is_nan(right))
        same = pc.or_(same, pc.fill_null(nans, False))
    return _flags(same)


def _flags(values: pa.ChunkedArray) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def _numbered(columns: Sequence[pa.ChunkedArray]) -> Indices:
    """One number for each row, the same for rows that are equal in all columns; nulls are equal."""
    numbers, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        coded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
        values = max(1, len(coded.dictionary))
        if count > _WIDEST // values:
            numbers, count = _dense(numbers)
        numbers = numbers * values + coded.indices.to_numpy().astype(np.int64)
        count *= values
    return numbers if len(columns) == 1 else _dense(numbers)[0]


def _dense(numbers: Indices) -> tuple[Indices, int]:
    """The same numbering with none left out; and how many there are."""
    values, dense = np.unique(numbers, return_inverse=True)
    return dense.astype(np.int64).reshape(-1), max(1, len(values))


def _last_of_each(keys: Indices, positions: Indices) -> Indices:
    """Where the last row of each key is, by position."""
    order = np.argsort(positions, kind="stable")
    last = np.full(1 + keys.max(initial=-1), -1, np.int64)
    last[keys[order]] = order  # of several for one key, the last one stays
    return np.sort(last[last >= 0])
