"""The merge strategies: the function of each, and the order in which its rows are written.

Append: add every row of the batch without reading the history.

Ledger: add rows whose key is not in the history.

Only keys are compared: changed values of a known key are ignored, a retracted key stays known,
equal keys within the batch are all added, and a null in a key never matches.

UpsertStream: the batch has the new row of each key, or its retraction.

Within the batch the last row of a key counts. A retraction takes the row of its key back; rows of
all other codes, and without one, are upserts. The receipt tells of an unknown code, and of the old
row of a correction as the last of its key, as they do not say what stands. Retractions are written
with the stored values. The receipt tells of rows that gave way to a later one: a source
whose key is no key loses them.

Snapshot: the batch is the whole state; the ledger receives the differences.

The first batch is appended. Later, each key is looked up on both sides: if it is only in the batch,
its row is appended; only in the state, retracted with its stored values; in both and changed,
corrected. A key may occur only once in a batch: of two rows one would stand for ever.

ChangelogStream: the batch is already a ledger; its rows pass unchanged.

Rows of a key stay in input order, so a retraction followed by an append stays as it is. A
correction must be a pair, with the old row directly before the new one of the same key. A
retraction, and the old row of a correction, must equal the row that they retract, because a
derivative that computes sums subtracts them. Without an event time they have that of the row that
they retract; every other row without one has the time of the post. Rows are compared as they would
be stored.

The order of written rows: sorted at once, or cut into ranges that are sorted separately.

Both ways compare the same columns, so that the sorted ranges together are the sorted whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_protocol.chain.state import Vocab
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.sources import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf_storage.datasets.merge_state.comparable import comparable_table, equal_values, numbered
from odf_storage.datasets.merge_state.state import StateSpec

from ..slices.schema import POSITION, Merging, Operation, check_columns, filled
from .history import (
    NONE,
    SHOWN_ROWS,
    UNKNOWN,
    Findings,
    HistoryChanges,
    HistoryRange,
    Mask,
    Merged,
    Problems,
    Rows,
    coded,
    codes_of,
    hashes_of,
    last_per_key,
    sharing,
)


def append(merging: Merging, new: pa.Table, _: HistoryRange | None) -> Merged:
    return Merged(rows=coded(merging, new, Operation.APPEND))


def ledger(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    if history is None:
        return append(merging, new, None)
    keys = new.select(merging.key)
    unseen = history.find(keys) < 0
    for column in keys.columns:
        unseen |= pc.is_null(column).to_numpy()
    return append(merging, new.filter(pa.array(unseen)), None)


def upsert_stream(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    new = new.take(np.argsort(new.column(POSITION).to_numpy(), kind="stable"))
    keys = new.select(merging.key)
    last = last_per_key(hashes_of(keys, merging.key), keys.take)
    findings = Findings(gave_way=Problems.of(new.column(POSITION).to_numpy()[~last], lambda _: ""))
    codes = _codes(merging, new)
    findings = replace(findings, unclear=_unclear(codes, last, new.column(POSITION).to_numpy()))
    new = new.filter(pa.array(last))
    gone = codes[last] == int(Operation.RETRACT)
    if history is None:
        rows = coded(merging, new.filter(pa.array(~gone)), Operation.APPEND)
        return Merged(rows=rows, findings=findings)
    changes = HistoryChanges.of(merging, new, history)
    stands = changes.stored >= 0
    parts = [
        changes.retracted(changes.stored[gone & stands]),
        changes.appended(np.flatnonzero(~gone & ~stands)),
        *changes.corrected(np.flatnonzero(~gone & stands)),
    ]
    return Merged(rows=pa.concat_tables(parts), findings=findings)


def _codes(merging: Merging, new: pa.Table) -> npt.NDArray[np.int32]:
    if merging.op not in new.column_names:
        return np.full(new.num_rows, int(Operation.APPEND), np.int32)
    codes = codes_of(new.column(merging.op).combine_chunks())
    return np.asarray(codes.fill_null(int(Operation.APPEND)).to_numpy())


def _unclear(codes: npt.NDArray[np.int32], last: Mask, positions: Rows) -> Problems:
    """Return rows of upserts without a known code, and old rows of corrections without the new."""
    at = np.flatnonzero((codes == UNKNOWN) | ((codes == int(Operation.CORRECT_FROM)) & last))
    return Problems.of(
        positions[at], lambda place: NO_CODE if codes[at[place]] == UNKNOWN else HALF
    )


def snapshot(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    findings = Findings(refused=_doubles(merging, new))
    if history is None:
        return replace(append(merging, new, None), findings=findings)
    changes = HistoryChanges.of(merging, new, history)
    stands = changes.stored >= 0
    standing = history.standing()
    parts = [
        changes.retracted(standing[~np.isin(standing, changes.stored[stands])]),
        changes.appended(np.flatnonzero(~stands)),
        *changes.corrected(np.flatnonzero(stands)),
    ]
    return Merged(rows=pa.concat_tables(parts), findings=findings)


def _doubles(merging: Merging, new: pa.Table) -> Problems:
    """Return the rows whose key occurs more than once."""
    keys = new.select(merging.key)
    some = sharing(hashes_of(keys, merging.key))
    if not len(some):
        return NONE
    numbers = numbered(keys.take(some).columns)
    some = some[np.bincount(numbers)[numbers] > 1]

    def text(at: int) -> str:
        (key,) = keys.slice(int(some[at]), 1).to_pylist()
        shown = json.dumps(key, ensure_ascii=False, separators=(",", ":"), default=str)
        return f"has a key that the snapshot holds more than once: {shown}"

    return Problems.of(new.column(POSITION).to_numpy()[some], text)


NO_CODE = (
    "has no known operation code: 0 appends a row, 1 takes one back, 2 and 3 are the old and the "
    "new row of a correction"
)
HALF = "is one half of a correction without the other"
ONE_OF_EQUALS = (
    ", or equals one that was taken back already: without a key only one of equal rows can be "
    "taken back; to take back more, reset the dataset to before them and post the others again"
)


def changelog_stream(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    codes = codes_of(new.column(merging.op).combine_chunks())
    positions = new.column(POSITION).to_numpy()
    numbers = numbered([new.column(name) for name in merging.key])
    order = np.lexsort((positions, numbers))  # by key, rows of a key in input order
    lines = _Lines(
        codes=codes.fill_null(UNKNOWN).to_numpy()[order],
        follows=np.diff(numbers[order], prepend=-1) == 0,
        positions=positions[order],
    )
    standing = _Standing.of(merging, lines, new, order, history)
    new = standing.timed(new)
    findings = Findings(refused=_refused(lines), not_standing=standing.problems(new))
    return Merged(rows=coded(merging, new, codes), findings=findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """Rows sorted by key: their codes, positions, and whether the previous row has the same key."""

    codes: npt.NDArray[np.int32]
    follows: Mask
    positions: Rows


def _refused(lines: _Lines) -> Problems:
    """Return rows without a known code, and corrections without their other half."""
    codes, follows = lines.codes, lines.follows
    opens, closes = codes == int(Operation.CORRECT_FROM), codes == int(Operation.CORRECT_TO)
    paired = follows[1:] & opens[:-1] & closes[1:]
    opened, closed = np.append(paired, False), np.append(False, paired)
    unknown = codes == UNKNOWN
    at = np.flatnonzero(unknown | (opens & ~opened) | (closes & ~closed))

    def text(place: int) -> str:
        return NO_CODE if unknown[at[place]] else HALF

    return Problems.of(lines.positions[at], text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """The rows that take others back, and the current rows of their keys: the previous one in the
    batch, or else that of the history."""

    merging: Merging
    lines: _Lines
    order: Rows
    compared: Rows
    """Places in `lines` of rows whose key has a current row."""
    alone: Rows
    """Places in `lines` of rows whose key has none."""
    rows: pa.Table
    """The current row for each of `compared`, as it is stored."""

    @classmethod
    def of(
        cls,
        merging: Merging,
        lines: _Lines,
        new: pa.Table,
        order: Rows,
        history: HistoryRange | None,
    ) -> _Standing:
        takes_back = np.isin(lines.codes, (int(Operation.RETRACT), int(Operation.CORRECT_FROM)))
        inside = np.flatnonzero(takes_back & lines.follows)
        inside = inside[lines.codes[inside - 1] != int(Operation.RETRACT)]
        first = np.flatnonzero(takes_back & ~lines.follows)
        names = [name for name in new.column_names if name not in (merging.op, POSITION)]
        rows = _filled(merging, new.select(names))
        standing = [rows.take(order[inside - 1])]
        if history is None:
            first = first[:0]
        else:
            stored = history.find(rows.take(order[first]).select(merging.key))
            first = first[stored >= 0]
            standing.append(history.take(stored[stored >= 0], names))
        compared = np.concatenate([inside, first])
        takes_back[compared] = False
        return cls(
            merging=merging,
            lines=lines,
            order=order,
            compared=compared,
            alone=np.flatnonzero(takes_back),
            rows=pa.concat_tables(standing),
        )

    def timed(self, new: pa.Table) -> pa.Table:
        """Return the rows of the batch with the event times that are stored."""
        name = self.merging.vocab.event_time_column
        given = new.column(name).combine_chunks()
        if not given.null_count:
            return new
        at = self.order[self.compared]
        lacking = np.flatnonzero(pc.is_null(given.take(at)).to_numpy(zero_copy_only=False))
        lacking = lacking[np.argsort(at[lacking])]
        mask = np.zeros(new.num_rows, bool)
        mask[at[lacking]] = True
        times = self.rows.column(name).combine_chunks().take(lacking)
        times = pc.replace_with_mask(given, pa.array(mask), times)
        return _filled(self.merging, new.set_column(new.column_names.index(name), name, times))

    def problems(self, new: pa.Table) -> Problems:
        """Return rows that differ from the row that they take back, or that have no such row."""
        rows = new.select(self.rows.column_names).take(self.order[self.compared])
        differs = {
            name: ~equal_values(rows.column(name), self.rows.column(name))
            for name in rows.column_names
        }
        other = np.logical_or.reduce(list(differs.values()))
        at = np.concatenate([self.compared[other], self.alone])
        places = np.flatnonzero(other)
        keyless = set(self.rows.column_names) <= {*self.merging.key}

        def text(place: int) -> str:
            if place >= len(places):
                return "takes back a row that does not stand" + (ONE_OF_EQUALS if keyless else "")
            wrong = [name for name, mask in differs.items() if mask[places[place]]]
            shown = ", ".join(f"`{name}`" for name in wrong[:SHOWN_ROWS])
            return f"takes back a row that is another one in {shown}"

        return Problems.of(self.lines.positions[at], text)


def _filled(merging: Merging, rows: pa.Table) -> pa.Table:
    """Return the rows with the time of the post where they have none."""
    name, time = merging.vocab.event_time_column, merging.source_event_time
    if time is None:
        return rows
    at = rows.column_names.index(name)
    return rows.set_column(at, name, filled(rows.column(name), time))


Merge = Callable[[Merging, pa.Table, HistoryRange | None], Merged]
"""Merges the rows of a batch (with their position, in the types of the slice) with the history of
their keys, or None if there is no history. It receives all rows of a key together, unless the
strategy decides row by row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A merge function, and the columns by which its rows are sorted."""

    merge: Merge
    order: Callable[[Merging], tuple[str, ...]]
    takes_operations: bool = False
    """Whether the batch may have the operation column."""
    needs_operations: bool = False
    passes: bool = False
    """Whether every row of the batch is appended unchanged if there is no history, regardless of
    others."""
    by_row: bool = False
    """Whether the history alone decides about a row of the batch, whatever other rows there are."""
    reads_history: bool = True
    """Whether rows are compared with the current rows of their key."""
    reads_all: bool = False
    """Whether rows are compared with all current rows."""
    knows_keys_only: bool = False
    """Whether the strategy reads only keys of the history, including those of retracted rows."""


def _by_event_time(merging: Merging) -> tuple[str, ...]:
    return (merging.vocab.event_time_column, POSITION)


def _by_key(merging: Merging) -> tuple[str, ...]:
    return (*merging.key, merging.op, POSITION)


def _by_key_in_input_order(merging: Merging) -> tuple[str, ...]:
    return (*merging.key, POSITION)


MERGE: dict[type, Strategy] = {
    MergeStrategyAppend: Strategy(
        merge=append, order=_by_event_time, passes=True, reads_history=False
    ),
    MergeStrategyLedger: Strategy(
        merge=ledger, order=_by_event_time, passes=True, by_row=True, knows_keys_only=True
    ),
    MergeStrategySnapshot: Strategy(merge=snapshot, order=_by_key, reads_all=True),
    MergeStrategyChangelogStream: Strategy(
        merge=changelog_stream,
        order=_by_key_in_input_order,
        takes_operations=True,
        needs_operations=True,
    ),
    MergeStrategyUpsertStream: Strategy(merge=upsert_stream, order=_by_key, takes_operations=True),
}


def reads_history(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].reads_history


def bytes_of_all(strategy: MergeStrategy, history: int) -> int:
    """Return the size of the history if the strategy reads all of it; 0 if it only looks up
    keys."""
    return history if MERGE[type(strategy)].reads_all else 0


def takes_operations(strategy: MergeStrategy) -> bool:
    return MERGE[type(strategy)].takes_operations


def merging_of(strategy: MergeStrategy, vocab: Vocab) -> Merging:
    """Return the strategy's parameters in a common form."""
    return Merging(
        vocab=vocab,
        key=getattr(strategy, "primary_key", ()),
        compare=getattr(strategy, "compare_columns", None),
    )


def state_of(strategy: MergeStrategy, merging: Merging, schema: pa.Schema) -> StateSpec:
    """Return what the state of a strategy keeps of slices with this schema. Raises
    `CannotMerge`."""
    check_columns(schema.names, merging.key, "primary key")
    keys_only = MERGE[type(strategy)].knows_keys_only
    every = [name for name in schema.names if name != merging.vocab.system_time_column]
    names = merging.key if keys_only else every
    return StateSpec(
        key=merging.key,
        columns=tuple((name, str(schema.field(name).type)) for name in names),
        operation=None if keys_only else merging.op,
    )


def check_batch(strategy: MergeStrategy, merging: Merging, schema: pa.Schema) -> None:
    """Raise `CannotMerge` if a batch lacks columns that the strategy names, or has operation codes
    that are not whole numbers."""
    rule = MERGE[type(strategy)]
    if rule.reads_history:
        check_columns(schema.names, merging.key, "primary key")
    if merging.compare is not None:
        check_columns(schema.names, merging.compare, "compared")
    if merging.op not in schema.names:
        if rule.needs_operations:
            raise BadInput(
                "CannotMerge",
                f"the batch has no operation column `{merging.op}`",
                column=merging.op,
            )
        return
    kind = schema.field(merging.op).type
    if rule.takes_operations and not pa.types.is_integer(kind):
        raise BadInput(
            "CannotMerge",
            f"the operation column `{merging.op}` is {kind}, and has to be a whole number",
            column=merging.op,
        )


Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrder:
    """Ascending by columns, nulls first; the last column is unique for each row."""

    columns: tuple[str, ...]
    event_time: str
    fallback: Instant
    """Event time that rows without one receive when they are written."""

    @property
    def of_input(self) -> MergeOrder:
        """The same order for rows that are in the order of the input: since sorting keeps the order
        of equal rows, their positions need not be compared."""
        return replace(self, columns=tuple(name for name in self.columns if name != POSITION))

    def keys(self, table: pa.Table) -> pa.Table:
        """Return the columns of the order in the form in which they are compared."""
        return comparable_table([self._column(table, name) for name in self.columns])

    def _column(self, table: pa.Table, name: str) -> pa.ChunkedArray:
        column = table.column(name)
        return filled(column, self.fallback) if name == self.event_time else column


def sort_indices(table: pa.Table, order: MergeOrder) -> pa.Array:
    """Return the indices of the rows in their order."""
    return _sorted(order.keys(table))


def sample(table: pa.Table, order: MergeOrder, count: int) -> pa.Table:
    """Return the keys of at most `count` rows, spread evenly over the table."""
    rows = min(count, table.num_rows)
    at = np.arange(rows) * table.num_rows // max(1, rows)
    return order.keys(table.select(list(dict.fromkeys(order.columns))).take(at))


def bounds(samples: Sequence[pa.Table], ranges: int) -> pa.Table:
    """Return the beginnings of all ranges but the first, so that ranges have about equally many
    samples."""
    whole = pa.concat_tables(samples)
    whole = whole.take(_sorted(whole))
    at = np.unique(np.arange(1, ranges) * whole.num_rows // ranges)
    return whole.take(at[at < whole.num_rows])


def range_of(table: pa.Table, order: MergeOrder, begins: pa.Table) -> Indices:
    """Return the range of each row: the number of bounds that are not above it."""
    at, counts = in_ranges(table, order, begins)
    ranges = np.empty(table.num_rows, np.int64)
    ranges[at] = np.repeat(np.arange(len(counts)), counts)
    return ranges


def in_ranges(table: pa.Table, order: MergeOrder, begins: pa.Table) -> tuple[Indices, Indices]:
    """Return the indices of the rows in the order of their ranges, and the rows of each range."""
    both = _sorted(pa.concat_tables([begins, order.keys(table)])).to_numpy()
    bounds = np.flatnonzero(both < begins.num_rows)  # a bound is before rows equal to it
    ends = [*(bounds - np.arange(len(bounds))), table.num_rows]
    return both[both >= begins.num_rows] - begins.num_rows, np.diff(ends, prepend=0)


def _sorted(keys: pa.Table) -> pa.Array:
    """Sort stably, so that equal rows keep their order."""
    return pc.sort_indices(
        keys, sort_keys=[(name, "ascending", "at_start") for name in keys.column_names]
    )
