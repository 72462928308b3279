"""Rows of a changelog that take others back, compared with what stands under their key.

A retraction, and the old row of a correction, have to be the row that they take back: a derivative
that sums up subtracts them. What stands is the last row of the key, in the batch or else in the
history, unless that was a retraction. Only keys of rows that take back are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf_node.protocol.metadata.data import DataSlice
from odf_node.protocol.metadata.reading import MergeStrategyChangelogStream
from odf_node.protocol.source_options import RetractionRule, retraction_rule
from odf_node.storage.datasets.dataset.dataset import Dataset
from odf_node.storage.datasets.merge_state.comparable import equal_values, numbered
from odf_node.storage.datasets.merge_state.key_hash import (
    Hashes,
    NotHashable,
    check_hashable,
    key_hashes,
)
from odf_node.storage.datasets.merge_state.segments import Mask, StateDamaged
from odf_node.storage.stores.ports.values import ObjectKind

from ...merge.table import merging_of
from ...plan.ingest import IngestPlan
from ...slices.columns import POSITION, CannotMerge, Merging, Operation
from ...slices.conform import conform
from ..work.context import History
from ..work.slice_files import local_file
from .narrow import state_of
from .stage import Staged

SHOWN_ROWS = 10
"""So many rows are named by an error or a warning."""
_TAKES_BACK = (int(Operation.RETRACT), int(Operation.CORRECT_FROM))


class NotWhatStands(CannotMerge):
    """A row of a changelog takes back a row that is another one, or is not there."""


def check_taken_back(
    dataset: Dataset,
    plan: IngestPlan,
    staged: Staged,
    schema: pa.Schema,
    history: History,
    scratch: Path,
) -> tuple[str, ...]:
    """What to warn of, if the source wants to be warned only.

    Raises:
        NotWhatStands.
    """
    merging = merging_of(plan.merge, plan.vocab)
    names = [name for name in staged.schema.names if name != merging.op]
    if (
        not isinstance(plan.merge, MergeStrategyChangelogStream)
        or merging.op not in staged.schema.names
        or not set(merging.key) <= set(names)
    ):
        return ()
    try:
        check_hashable([schema.field(name).type for name in merging.key])
    except NotHashable:
        return ("retractions were not compared: the key holds a column of a nested type",)
    hashes = _hashes_taken_back(staged, merging, schema)
    if not len(hashes):
        return ()
    columns = [merging.op, *names]
    kinds = pa.schema([schema.field(name).with_nullable(True) for name in columns])
    new = _table(
        kinds.append(pa.field(POSITION, pa.int64())),
        (_with_hash(batch, merging, schema, hashes) for batch in staged.batches()),
    )
    old = _history(dataset, plan, merging, schema, hashes, kinds, history, scratch)
    problems = _problems(old, new, merging, names)
    if not problems:
        return ()
    more = f", and {len(problems) - SHOWN_ROWS} more" if problems[SHOWN_ROWS:] else ""
    text = f"{'; '.join(problems[:SHOWN_ROWS])}{more}"
    if retraction_rule(plan.read.schema) is RetractionRule.WARN:
        return (text,)
    raise NotWhatStands(text, rows=len(problems))


def _takes_back(batch: pa.RecordBatch, merging: Merging) -> pa.Array:
    codes = batch.column(merging.op)
    return pc.is_in(codes, value_set=pa.array(_TAKES_BACK, codes.type))


def _hashes(batch: pa.RecordBatch, merging: Merging, schema: pa.Schema) -> Hashes:
    return key_hashes(
        [conform(batch.column(name), schema.field(name).type) for name in merging.key]
    )


def _hashes_taken_back(staged: Staged, merging: Merging, schema: pa.Schema) -> Hashes:
    """Of the keys whose rows are taken back."""
    found = [
        np.unique(_hashes(rows, merging, schema))
        for batch in staged.batches()
        if (rows := batch.filter(_takes_back(batch, merging))).num_rows
    ]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.uint64)


def _with_hash(
    batch: pa.RecordBatch, merging: Merging, schema: pa.Schema, hashes: Hashes
) -> pa.RecordBatch:
    return batch.filter(pa.array(np.isin(_hashes(batch, merging, schema), hashes)))


def _table(kinds: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """The rows in the types of the slice."""
    made = [
        pa.RecordBatch.from_arrays(
            [conform(batch.column(field.name), field.type) for field in kinds], schema=kinds
        )
        for batch in batches
        if batch.num_rows
    ]
    return pa.Table.from_batches(made, kinds)


def _history(
    dataset: Dataset,
    plan: IngestPlan,
    merging: Merging,
    schema: pa.Schema,
    hashes: Hashes,
    kinds: pa.Schema,
    history: History,
    scratch: Path,
) -> pa.Table:
    """Rows of the history under those keys, oldest first; of each key the last one at least."""
    if not plan.has_history:
        return kinds.empty_table()

    def local(data: DataSlice) -> Path:
        return local_file(dataset, ObjectKind.DATA, data.physical_hash, scratch / "history")

    if history.states is not None:
        spec = state_of(plan.merge, merging, schema)
        stored = pa.schema([schema.field(name).with_nullable(True) for name in spec.names])
        try:
            state = history.states.at(dataset, plan.head, spec, stored, local)
            return state.take(state.find(hashes), kinds.names).cast(kinds)
        except StateDamaged:
            pass  # the chain is the truth
    slices = history.slices.of(dataset, plan.head)
    return _table(
        kinds,
        (
            _with_hash(batch, merging, schema, hashes)
            for data in slices
            for batch in pq.ParquetFile(local(data)).iter_batches(columns=kinds.names)
        ),
    )


def _problems(old: pa.Table, new: pa.Table, merging: Merging, names: Sequence[str]) -> list[str]:
    """What is wrong with rows that take back, in the order of the batch."""
    positions = pa.concat_arrays(
        [pa.nulls(old.num_rows, pa.int64()), new.column(POSITION).combine_chunks()]
    )
    both = pa.concat_tables([old, new.drop_columns([POSITION])]).append_column(POSITION, positions)
    order = np.argsort(
        numbered([both.column(name) for name in merging.key]), kind="stable"
    )  # of a key, the oldest first
    both = both.take(pa.array(order)).combine_chunks()
    codes = both.column(merging.op).to_numpy()
    asked = np.isin(codes, _TAKES_BACK) & ~_flags(pc.is_null(both.column(POSITION)))
    at = np.flatnonzero(asked)
    before = np.maximum(at - 1, 0)
    rows, standing = both.take(pa.array(at)), both.take(pa.array(before))
    same_key = (at > 0) & _same(rows, standing, merging.key)
    stands = same_key & (codes[before] != int(Operation.RETRACT))
    differs = {name: stands & ~_same(rows, standing, [name]) for name in names}
    time = merging.vocab.event_time_column
    if time in differs:  # it takes the time of the row it takes back
        differs[time] &= ~_flags(pc.is_null(rows.column(time)))
    numbers = rows.column(POSITION).to_numpy() + 1
    found = []
    for place in np.argsort(numbers, kind="stable"):
        other = [name for name in names if differs[name][place]]
        if not stands[place]:
            found.append(f"row {numbers[place]} takes back a row that does not stand")
        elif other:
            listed = ", ".join(f"`{name}`" for name in other[:SHOWN_ROWS])
            found.append(f"row {numbers[place]} takes back a row that is another one in {listed}")
    return found


def _same(rows: pa.Table, others: pa.Table, names: Sequence[str]) -> Mask:
    same = np.ones(rows.num_rows, bool)
    for name in names:
        same &= equal_values(rows.column(name), others.column(name))
    return same


def _flags(values: pa.ChunkedArray) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)
