"""Snapshot: the batch is the whole state; the ledger receives the differences.

The first batch is appended. Later, each key is looked up on both sides: if it is only in the batch,
its row is appended; only in the state, retracted with its stored values; in both and changed,
corrected. A key may occur only once in a batch: of two rows one would stand for ever.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from odf_storage.datasets.merge_state.comparable import numbered

from ..slices.columns import POSITION, Merging
from .append import append
from .changes import Changes, Merged
from .findings import NONE, Findings, Problems
from .history import HistoryRange
from .keys import hashes_of, sharing


def snapshot(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    findings = Findings(refused=_doubles(merging, new))
    if history is None:
        return replace(append(merging, new, None), findings=findings)
    changes = Changes.of(merging, new, history)
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
