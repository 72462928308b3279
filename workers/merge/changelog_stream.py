"""ChangelogStream: the batch is already a ledger; its rows pass unchanged.

Rows of a key stay in input order, so a retraction followed by an append stays as it is. A
correction must be a pair, with the old row directly before the new one of the same key. A
retraction, and the old row of a correction, must equal the row that they retract, because a
derivative that computes sums subtracts them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odf_node.storage.datasets.merge_state.comparable import equal_values, numbered

from ..slices.columns import POSITION, Merging, Operation
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
    findings = Findings(
        refused=_refused(lines), not_standing=_not_standing(merging, lines, new, order, history)
    )
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


def _not_standing(
    merging: Merging, lines: _Lines, new: pa.Table, order: Rows, history: HistoryRange | None
) -> Problems:
    """Return retracting rows that differ from the current row of their key, which is the previous
    one in the batch or else in the history, or that have no such row."""
    takes_back = np.isin(lines.codes, (int(Operation.RETRACT), int(Operation.CORRECT_FROM)))
    inside = np.flatnonzero(takes_back & lines.follows)
    inside = inside[lines.codes[inside - 1] != int(Operation.RETRACT)]
    first = np.flatnonzero(takes_back & ~lines.follows)
    names = [name for name in new.column_names if name not in (merging.op, POSITION)]
    rows = new.select(names)
    standing = [rows.take(order[inside - 1])]
    if history is None:
        first = first[:0]
    else:
        stored = history.find(rows.take(order[first]).select(merging.key))
        first = first[stored >= 0]
        standing.append(history.take(stored[stored >= 0], names))
    compared = np.concatenate([inside, first])
    differs = _differs(merging, rows.take(order[compared]), pa.concat_tables(standing))
    other = np.logical_or.reduce(list(differs.values()))
    takes_back[compared] = False
    at = np.concatenate([compared[other], np.flatnonzero(takes_back)])
    places = np.flatnonzero(other)

    def text(place: int) -> str:
        if place >= len(places):
            return "takes back a row that does not stand"
        wrong = [name for name in names if differs[name][places[place]]]
        shown = ", ".join(f"`{name}`" for name in wrong[:SHOWN_ROWS])
        return f"takes back a row that is another one in {shown}"

    return Problems.of(lines.positions[at], text)


def _differs(merging: Merging, rows: pa.Table, standing: pa.Table) -> dict[str, Mask]:
    """Return for each column which rows differ; a row without an event time takes the other
    row's."""
    differs = {}
    for name in rows.column_names:
        differs[name] = ~equal_values(rows.column(name), standing.column(name))
        if name == merging.vocab.event_time_column:
            differs[name] &= pc.is_valid(rows.column(name)).to_numpy()
    return differs
