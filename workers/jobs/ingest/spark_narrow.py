"""Before a merge: leave out what cannot matter, on both sides, by the merge state.

Of a Ledger's batch only rows with unseen keys remain, and no history. Of a Snapshot and an
UpsertStream rows that stand unchanged go, and of the history what those were and, for an
UpsertStream, whatever the batch does not name. What remains is merged by the same rules as ever,
so that a doubt costs time only: rows are left out on exact equality, not on that of hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_node.protocol.metadata.reading import (
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
)
from odf_node.storage.datasets.merge_state.comparable import equal_values
from odf_node.storage.datasets.merge_state.key_hash import Hashes, key_hashes
from odf_node.storage.datasets.merge_state.segments import Mask
from odf_node.storage.datasets.merge_state.state import Candidates, MergeState, StateSpec

from ...merge.table import state_of
from ...slices.columns import POSITION, Merging, Operation
from ...slices.conform import conform
from .stage import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What is left to merge. `history` is None when the rest of the history has no say."""

    staged: Staged
    history: Path | None = None
    history_rows: int = 0
    projected: bool = False
    """The history is one row per key, and all of them stand."""
    distinct: bool = False
    """No key occurs twice in the batch."""


def narrow(
    staged: Staged, strategy: MergeStrategy, merging: Merging, state: MergeState, scratch: Path
) -> Narrowed:
    """What is left of the batch and of the history."""
    if isinstance(strategy, MergeStrategyLedger):
        seen = [_seen(group, merging, state) for group in _groups(staged)]
        return Narrowed(staged=_without(staged, seen, merging, scratch))
    return _by_rows(staged, strategy, merging, state, scratch)


def _seen(group: pa.Table, merging: Merging, state: MergeState) -> Mask:
    """Rows of a ledger's batch whose key is in the history; a null in a key never is."""
    key = _conformed(group, merging.key, state)
    found = state.find(_hashes(key))
    same = _same_key(key, found, merging, state)
    for column in key.columns:
        same &= ~np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), bool)[found.asked]
    seen = np.zeros(group.num_rows, bool)
    seen[found.asked[same]] = True
    return seen


def _by_rows(
    staged: Staged, strategy: MergeStrategy, merging: Merging, state: MergeState, scratch: Path
) -> Narrowed:
    snapshot = isinstance(strategy, MergeStrategySnapshot)
    needed = [np.full(segment.info.rows, snapshot) for segment in state.segments]
    hashes = [_hashes(_conformed(group, merging.key, state)) for group in _groups(staged)]
    values, counts = np.unique(
        np.concatenate(hashes or [np.zeros(0, np.uint64)]), return_counts=True
    )
    several = values[counts > 1]
    settled = []
    for group, some in zip(_groups(staged), hashes, strict=True):
        found = state.find(some)
        once = ~np.isin(some, several) & ~_retracts(group, merging)
        stands = _stands(group, found, merging, state) & once
        for at in range(len(needed)):
            here = found.where((found.segment == at) & (stands[found.asked] == snapshot))
            needed[at][here.row] = not snapshot
        settled.append(stands)
    path = scratch / "relevant.parquet"
    rows, exact = _write_needed(state, state_of(strategy, merging, state.schema), needed, path)
    return Narrowed(
        staged=_without(staged, settled, merging, scratch),
        history=path,
        history_rows=rows,
        projected=exact,
        distinct=not len(several),
    )


def _stands(group: pa.Table, found: Candidates, merging: Merging, state: MergeState) -> Mask:
    """Rows that are in the state just as they are, as far as they are compared."""
    stands = np.zeros(group.num_rows, bool)
    columns = [name for name in group.column_names if name != POSITION]
    compared = merging.compared(columns)
    nested = any(pa.types.is_nested(state.schema.field(name).type) for name in compared)
    if not len(found.asked) or nested:
        return stands
    key = _conformed(group, merging.key, state)
    first = np.flatnonzero(np.diff(found.asked, prepend=-1))
    pure = np.logical_and.reduceat(_same_key(key, found, merging, state), first)
    last = np.append(first[1:], len(found.asked)) - 1
    newest = Candidates(found.asked[last], found.segment[last], found.row[last])
    stored = state.take(newest, [merging.op, *compared])
    same = pure & _differs(stored.column(merging.op), int(Operation.RETRACT))
    values = _conformed(group, compared, state).take(newest.asked)
    for name in compared:
        equal = equal_values(values.column(name), stored.column(name))
        if name == merging.vocab.event_time_column:
            equal |= np.asarray(values.column(name).is_null().to_numpy(), bool)
        same &= equal
    stands[newest.asked[same]] = True
    return stands


def _retracts(group: pa.Table, merging: Merging) -> Mask:
    if merging.op not in group.column_names:
        return np.zeros(group.num_rows, bool)
    return ~_differs(group.column(merging.op), int(Operation.RETRACT))


def _differs(column: pa.ChunkedArray, code: int) -> Mask:
    other = pc.not_equal(column, code).fill_null(True)
    return np.asarray(other.to_numpy(), bool)


def _same_key(key: pa.Table, found: Candidates, merging: Merging, state: MergeState) -> Mask:
    stored, asked = state.take(found, merging.key), key.take(found.asked)
    same = np.ones(len(found.asked), bool)
    for name in merging.key:
        same &= equal_values(asked.column(name), stored.column(name))
    return same


def _hashes(key: pa.Table) -> Hashes:
    return key_hashes([column.combine_chunks() for column in key.columns])


def _conformed(group: pa.Table, names: list[str] | tuple[str, ...], state: MergeState) -> pa.Table:
    """Columns of the batch in the types of the state."""
    columns = [
        conform(group.column(name).combine_chunks(), state.schema.field(name).type)
        for name in names
    ]
    return pa.table(columns, names=list(names))


def _groups(staged: Staged) -> Iterator[pa.Table]:
    with pq.ParquetFile(staged.file()) as file:
        for at in range(file.num_row_groups):
            yield file.read_row_group(at).combine_chunks()


def _without(staged: Staged, gone: list[Mask], merging: Merging, scratch: Path) -> Staged:
    """The staged batch without those rows; the same file if there are none."""
    count = sum(int(mask.sum()) for mask in gone)
    if count == 0:
        return staged
    path = scratch / "narrowed.parquet"
    nulls = 0
    with pq.ParquetFile(staged.file()) as file:
        schema = file.schema_arrow
    with pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False) as writer:
        for group, mask in zip(_groups(staged), gone, strict=True):
            if not mask.all():
                rest = group.filter(pa.array(~mask))
                nulls += rest.column(merging.vocab.event_time_column).null_count
                writer.write_table(rest)
    rows = staged.rows - count
    size = staged.size * rows // max(1, staged.rows)
    return replace(staged, path=path, table=None, rows=rows, event_time_nulls=nulls, size=size)


def _write_needed(
    state: MergeState, spec: StateSpec, needed: list[Mask], path: Path
) -> tuple[int, bool]:
    """How many rows there are, and whether they are one per key."""
    count, exact = 0, True
    with pq.ParquetWriter(
        path, state.schema, compression="lz4", use_dictionary=False, store_schema=False
    ) as writer:
        for rows, alone in state.standing(spec, needed):
            if rows.num_rows:
                writer.write_table(rows.cast(state.schema))
            count, exact = count + rows.num_rows, exact and alone
    return count, exact
