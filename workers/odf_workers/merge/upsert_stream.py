"""UpsertStream: the batch has the new row of each key, or its retraction.

Within the batch the last row of a key counts. The only special operation code is the retraction;
without the column every row is an upsert. Retractions are written with the stored values. The
receipt tells of rows that gave way to a later one: a source whose key is no key loses them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..slices.columns import POSITION, Merging, Operation
from .changes import Changes, Merged, coded, codes_of
from .findings import Findings, Problems
from .history import HistoryRange
from .keys import Mask, hashes_of, last_per_key


def upsert_stream(merging: Merging, new: pa.Table, history: HistoryRange | None) -> Merged:
    new = new.take(np.argsort(new.column(POSITION).to_numpy(), kind="stable"))
    keys = new.select(merging.key)
    last = last_per_key(hashes_of(keys, merging.key), keys.take)
    findings = Findings(gave_way=Problems.of(new.column(POSITION).to_numpy()[~last], lambda _: ""))
    new = new.filter(pa.array(last))
    gone = _retracts(merging, new)
    if history is None:
        rows = coded(merging, new.filter(pa.array(~gone)), Operation.APPEND)
        return Merged(rows=rows, findings=findings)
    changes = Changes.of(merging, new, history)
    stands = changes.stored >= 0
    parts = [
        changes.retracted(changes.stored[gone & stands]),
        changes.appended(np.flatnonzero(~gone & ~stands)),
        *changes.corrected(np.flatnonzero(~gone & stands)),
    ]
    return Merged(rows=pa.concat_tables(parts), findings=findings)


def _retracts(merging: Merging, new: pa.Table) -> Mask:
    if merging.op not in new.column_names:
        return np.zeros(new.num_rows, bool)
    codes = codes_of(new.column(merging.op).combine_chunks())
    return np.asarray(codes.fill_null(0).to_numpy() == int(Operation.RETRACT))
