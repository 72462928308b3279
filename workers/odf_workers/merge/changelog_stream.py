"""ChangelogStream: the batch is already a ledger; its rows pass unchanged.

Rows of a key stay in input order, so a retraction followed by an append stays as it is. A
correction must be a pair, with the old row directly before the new one of the same key. A
retraction, and the old row of a correction, must equal the row that they retract, because a
derivative that computes sums subtracts them. Without an event time they have that of the row that
they retract; every other row without one has the time of the post. Rows are compared as they would
be stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_storage.datasets.merge_state.comparable import equal_values, numbered

from ..slices.columns import POSITION, Merging, Operation
from ..slices.millis import filled
from .changes import Merged, coded, codes_of
from .findings import SHOWN_ROWS, Findings, Problems
from .history import HistoryRange
from .keys import Mask, Rows

_UNKNOWN = -1


def changelog_stream(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    codes = codes_of(new.column(merging.op).combine_chunks())
    positions = new.column(POSITION).to_numpy()
    numbers = numbered([new.column(name) for name in merging.key])
    order = np.lexsort((positions, numbers))  # by key, rows of a key in input order
    lines = _Lines(
        codes=codes.fill_null(_UNKNOWN).to_numpy()[order],
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
    unknown = codes == _UNKNOWN
    at = np.flatnonzero(unknown | (opens & ~opened) | (closes & ~closed))

    def text(place: int) -> str:
        if unknown[at[place]]:
            return "has no known operation code"
        return "is one half of a correction without the other"

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

        def text(place: int) -> str:
            if place >= len(places):
                return "takes back a row that does not stand"
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
