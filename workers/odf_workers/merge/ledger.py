"""Ledger: add rows whose key is not in the history.

Only keys are compared: changed values of a known key are ignored, a retracted key stays known,
equal keys within the batch are all added, and a null in a key never matches.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ..slices.columns import Merging
from .append import append
from .changes import Merged
from .history import HistoryRange


def ledger(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    if history is None:
        return append(merging, new, None)
    keys = new.select(merging.key)
    unseen = history.find(keys) < 0
    for column in keys.columns:
        unseen |= pc.is_null(column).to_numpy()
    return append(merging, new.filter(pa.array(unseen)), None)
