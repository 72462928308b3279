"""UpsertStream: the batch has the new row of each key, or its retraction.

Within the batch the last row of a key counts. The only special operation code is the retraction;
without the column every row is an upsert. Retractions are written with the stored values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..slices.columns import POSITION, Merging, Operation
from .changes import Changes, Merged, coded, codes_of
from .history import HistoryRange
from .keys import Mask, hashes_of, last_per_key


def upsert_stream(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    new = new.take(np.argsort(new.column(POSITION).to_numpy(), kind="stable"))
    keys = new.select(merging.key)
    new = new.filter(pa.array(last_per_key(hashes_of(keys, merging.key), keys.take)))
    gone = _retracts(merging, new)
    if history is None:
        return Merged(rows=coded(merging, new.filter(pa.array(~gone)), Operation.APPEND))
    changes = Changes.of(merging, new, history)
    stands = changes.stored >= 0
    parts = [
        changes.retracted(changes.stored[gone & stands]),
        changes.appended(np.flatnonzero(~gone & ~stands)),
        *changes.corrected(np.flatnonzero(~gone & stands)),
    ]
    return Merged(rows=pa.concat_tables(parts))


def _retracts(merging: Merging, new: pa.Table) -> Mask:
    if merging.op not in new.column_names:
        return np.zeros(new.num_rows, bool)
    codes = codes_of(new.column(merging.op).combine_chunks())
    return np.asarray(codes.fill_null(0).to_numpy() == int(Operation.RETRACT))
