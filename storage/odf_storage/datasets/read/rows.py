"""Projections of a changelog: all rows, the present state, or the facts without corrections.

A dataset as a table is its changelog. Two cuts can be applied first: at a system time (when the
row was recorded) and at an event time (when the event happened). Then

- `changelog`: every row that is left;
- `state`: for each primary key the row with the last offset, if that row adds: a retraction, or
  the old row of a correction whose new row has another key, leaves the key absent;
- `facts`: rows that were added and are still valid, without retracted or corrected rows.
  Corrections are applied before the cut at an event time, since they may change that time.

Rows stream in offset order and are read twice, except for the changelog: memory grows with
the number of keys or of retracted rows, not with the number of rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.chain.state import Vocab
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.kartothek.predicates import same_bits

APPEND, RETRACT, CORRECT_FROM, CORRECT_TO = range(4)
HELD_BYTES = 16 << 20
"""Size of rows in memory that are held until it is known whether one of them is taken back."""
SETTLE_ROWS = 1 << 17
"""Number of rows that are collected before they are reduced to one per key."""

Scan = Callable[[Sequence[str] | None, "np.ndarray[Any, Any] | None"], Iterator[pa.RecordBatch]]
"""Returns rows in offset order, by columns (None: all) and sorted offsets (None: all)."""


class Projection(StrEnum):
    """Projections of a changelog to a table."""

    CHANGELOG = "changelog"
    STATE = "state"
    FACTS = "facts"


def dataset_has_no_primary_keys() -> BadInput:
    """The state of a dataset without a primary key was requested."""
    return BadInput(
        "DatasetHasNoPrimaryKeys",
        "no merge strategy of the dataset has a primary key, so it has no state; "
        "read its changelog or its facts",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCut:
    """Latest system time and latest event time of rows, both inclusive; None: no cut."""

    system_time: Instant | None = None
    event_time: Instant | None = None


WHOLE = RowCut()


def project(
    scan: Scan,
    vocab: Vocab,
    projection: Projection,
    *,
    key: Sequence[str] = (),
    cut: RowCut = WHOLE,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of the projection in offset order; `columns` None: all columns.

    Raises:
        DatasetHasNoPrimaryKeys: the state was requested without a key. UnusableKey.
    """
    if projection is Projection.STATE:
        if not key:
            raise dataset_has_no_primary_keys()
        standing = live_by_key(scan, vocab, key, cut)
        return _selected(scan(columns, standing), columns)
    if projection is Projection.FACTS:
        return _facts(scan, vocab, cut, columns)
    return _changelog(scan, vocab, cut, columns)


def _facts(
    scan: Scan, vocab: Vocab, cut: RowCut, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that stand. If no row takes another back, these are all rows: as few rows as
    `HELD_BYTES` hold are read only once."""
    operation = vocab.operation_type_column
    wanted = _with(columns, cut, vocab)
    needed = wanted if wanted is None else list(dict.fromkeys([*wanted, operation]))
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in scan(needed, None):
        held.append(batch)
        size += batch.nbytes
        if size > HELD_BYTES or is_some_gone(batch, vocab):
            break
    else:
        yield from _selected((within(batch, vocab, cut) for batch in held), columns)
        return
    held.clear()
    if takes_back(scan, vocab):
        yield from _selected(scan(columns, live_facts(scan, vocab, cut)), columns)
    else:
        yield from _changelog(scan, vocab, cut, columns)


def _changelog(
    scan: Scan, vocab: Vocab, cut: RowCut, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    for batch in scan(_with(columns, cut, vocab), None):
        yield from _selected(iter([within(batch, vocab, cut)]), columns)


def _with(columns: Sequence[str] | None, cut: RowCut, vocab: Vocab) -> Sequence[str] | None:
    """Return the columns and those that the cut needs."""
    if columns is None:
        return None
    needed = list(columns)
    for at, name in (
        (cut.system_time, vocab.system_time_column),
        (cut.event_time, vocab.event_time_column),
    ):
        if at is not None and name not in needed:
            needed.append(name)
    return needed


def _selected(
    batches: Iterator[pa.RecordBatch], columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield batch if columns is None else batch.select(list(columns))


def within(batch: pa.RecordBatch, vocab: Vocab, cut: RowCut) -> pa.RecordBatch:
    """Return the rows that the cut keeps."""
    for at, name in (
        (cut.system_time, vocab.system_time_column),
        (cut.event_time, vocab.event_time_column),
    ):
        if at is not None:
            batch = batch.filter(_upto(batch.column(name), at))
    return batch


def _upto(column: pa.Array, at: Instant) -> pa.Array:
    """Return a mask of the values that are not later; a date counts as the start of its day."""
    if not pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"), safe=False)
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[column.type.unit]
    # Nanoseconds of 64 bits end in 2262: an instant later than that is later than all of them.
    last = max(min(at.ns // unit, 2**63 - 1), -(2**63))
    return pc.less_equal(column.cast(pa.int64()), pa.scalar(last, pa.int64()))


# --- state ----------------------------------------------------------------------------------


def live_by_key(
    scan: Scan, vocab: Vocab, key: Sequence[str], cut: RowCut = WHOLE
) -> np.ndarray[Any, Any]:
    """Return the sorted offsets of the present state: for each key the last row, if it adds.

    As keys, null equals null, NaN equals NaN, and -0.0 equals 0.0. Raise `UnusableKey`.
    """
    needed = [*key, vocab.offset_column, vocab.operation_type_column]
    columns = _with(list(dict.fromkeys(needed)), cut, vocab)
    settled: pa.Table | None = None
    pending: list[pa.Table] = []
    waiting = 0
    for batch in scan(columns, None):
        pending.append(_keyed(within(batch, vocab, cut), vocab, key))
        waiting += pending[-1].num_rows
        if waiting > SETTLE_ROWS + (0 if settled is None else settled.num_rows):
            settled, pending, waiting = _last_of_each(settled, pending, len(key)), [], 0
    settled = _last_of_each(settled, pending, len(key))
    if settled is None:
        return np.empty(0, np.int64)
    adds = pc.is_in(settled["op"], value_set=pa.array([APPEND, CORRECT_TO], pa.int64()))
    return np.sort(settled.filter(adds)["offset"].to_numpy().astype(np.int64))


def _keyed(batch: pa.RecordBatch, vocab: Vocab, key: Sequence[str]) -> pa.Table:
    columns = {f"k{at}": _same(batch.column(name)) for at, name in enumerate(key)}
    columns["offset"] = batch.column(vocab.offset_column).cast(pa.int64())
    columns["op"] = batch.column(vocab.operation_type_column).cast(pa.int64())
    return pa.table(columns)


def _same(column: pa.Array) -> pa.Array:
    """Return the column with equal bits for equal floats."""
    return same_bits(column) if pa.types.is_floating(column.type) else column


def _last_of_each(settled: pa.Table | None, pending: list[pa.Table], keys: int) -> pa.Table | None:
    """Return one row for each key: the row with the last offset."""
    parts = [*([] if settled is None else [settled]), *pending]
    if not parts:
        return None
    names = [f"k{at}" for at in range(keys)]
    try:
        whole = pa.concat_tables(parts).combine_chunks()
        last = whole.group_by(names, use_threads=False).aggregate(
            [("offset", "last"), ("op", "last")]
        )
    except (pa.ArrowNotImplementedError, pa.ArrowKeyError) as broken:
        raise BadInput(
            "UnusableKey", f"the primary key cannot be used: {str(broken)[:200]}"
        ) from None
    return last.rename_columns([name.removesuffix("_last") for name in last.column_names])


# --- facts ----------------------------------------------------------------------------------


def live_facts(scan: Scan, vocab: Vocab, cut: RowCut = WHOLE) -> np.ndarray[Any, Any]:
    """Return the sorted offsets of rows that were added and not retracted."""
    known = RowCut(system_time=cut.system_time)
    retracted = _retracted(scan, vocab, known)
    found: list[np.ndarray[Any, Any]] = []
    own = _with([vocab.offset_column, vocab.operation_type_column], cut, vocab)
    needed = own if retracted is None else None
    for batch in scan(needed, None):
        rows = within(batch, vocab, known)
        added = rows.filter(is_one_of(rows, vocab, APPEND, CORRECT_TO))
        if retracted is not None:
            added = _left_of(added, retracted, vocab)
        happened = within(added, vocab, RowCut(event_time=cut.event_time))
        found.append(happened.column(vocab.offset_column).to_numpy().astype(np.int64))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def is_one_of(rows: pa.RecordBatch, vocab: Vocab, *operations: int) -> pa.Array:
    """Return a mask of the rows that have one of the operation codes."""
    column = rows.column(vocab.operation_type_column)
    return pc.is_in(column, value_set=pa.array(operations, column.type))


@dataclass(slots=True)
class _Retracted:
    """Contents of retractions with their offsets, newest first; and the values that they have in
    columns of plain types, by which most other rows are told apart at once."""

    offsets: dict[tuple[Any, ...], list[int]]
    values: dict[str, pa.Array]

    def may_be(self, rows: pa.RecordBatch) -> np.ndarray[Any, Any]:
        """Return a mask of the rows that may have the content of a retraction."""
        mask = np.ones(rows.num_rows, np.bool_)
        for name, values in self.values.items():
            found = pc.is_in(rows.column(name), value_set=values)
            mask &= found.to_numpy(zero_copy_only=False)
        return mask


def _retracted(scan: Scan, vocab: Vocab, cut: RowCut) -> _Retracted | None:
    """Return the retractions; None if there are none. Only slices that have some are read whole."""
    places = _places(scan, vocab, cut)
    if not len(places):
        return None
    offsets: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    parts: dict[str, list[pa.Array]] = defaultdict(list)
    for batch in scan(None, places):
        rows = within(batch, vocab, cut)
        gone = rows.filter(is_one_of(rows, vocab, RETRACT, CORRECT_FROM))
        for offset, content in contents(gone, vocab):
            offsets[content].append(offset)
        if gone.num_rows:
            for name in _said(gone, vocab):
                if _is_plain(gone.column(name).type):
                    parts[name].append(pc.unique(gone.column(name)))
    for each in offsets.values():
        each.reverse()
    values = {name: pc.unique(pa.chunked_array(found)) for name, found in parts.items()}
    return _Retracted(offsets, values)


def _places(scan: Scan, vocab: Vocab, cut: RowCut) -> np.ndarray[Any, Any]:
    """Return the sorted offsets of the rows that take another back."""
    found = [np.empty(0, np.int64)]
    needed = _with([vocab.offset_column, vocab.operation_type_column], cut, vocab)
    for batch in scan(needed, None):
        rows = within(batch, vocab, cut)
        gone = rows.filter(is_one_of(rows, vocab, RETRACT, CORRECT_FROM))
        found.append(gone.column(vocab.offset_column).to_numpy().astype(np.int64))
    return np.sort(np.concatenate(found))


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether equal values of the type are those that Arrow takes for equal."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    )


def takes_back(scan: Scan, vocab: Vocab) -> bool:
    """Return whether a row retracts or corrects another, so that current rows are not all rows."""
    return any(is_some_gone(batch, vocab) for batch in scan([vocab.operation_type_column], None))


def is_some_gone(rows: pa.RecordBatch, vocab: Vocab) -> bool:
    """Return whether a row retracts another row."""
    return bool(pc.any(is_one_of(rows, vocab, RETRACT, CORRECT_FROM)).as_py())


def _left_of(added: pa.RecordBatch, retracted: _Retracted, vocab: Vocab) -> pa.RecordBatch:
    """Return the rows that no later row retracts; each retraction retracts one earlier row."""
    keep = ~retracted.may_be(added)
    asked = np.flatnonzero(~keep)
    for at, (offset, content) in zip(asked, contents(added.take(asked), vocab), strict=True):
        later = retracted.offsets.get(content)
        while later and later[-1] < offset:
            later.pop()  # it retracted no row that is left
        keep[at] = not later
        if later:
            later.pop()
    return added.filter(pa.array(keep))


def _said(rows: pa.RecordBatch, vocab: Vocab) -> list[str]:
    """Return the columns that are compared: all but offset, operation and system time."""
    ours = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    return [name for name in rows.schema.names if name not in ours]


def contents(rows: pa.RecordBatch, vocab: Vocab) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the offset and all values of each row, without operation and system time."""
    said = [rows.column(name).to_pylist() for name in _said(rows, vocab)]
    offsets = rows.column(vocab.offset_column).to_pylist()
    for offset, *values in zip(offsets, *said, strict=True):
        yield offset, tuple(_hashable(value) for value in values)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _hashable(part)) for name, part in value.items())
    if isinstance(value, list):
        return tuple(_hashable(part) for part in value)
    return "NaN" if value != value else value
