"""Rows of a large changelog that take others back, compared with what stands under their key.

Only rows with keys that are taken back are looked at, so that memory need not hold the others.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_node.storage.datasets.merge_state.key_hash import Hashes

from ...merge.changelog_stream import changelog_stream
from ...merge.changes import in_slice_types
from ...merge.findings import NOTHING, Findings
from ...merge.history import HistoryRange
from ...merge.keys import hashes_of
from ...slices.columns import Merging, Operation
from .stage import Staged

_TAKES_BACK = (int(Operation.RETRACT), int(Operation.CORRECT_FROM))


def findings_of(
    staged: Staged, schema: pa.Schema, merging: Merging, history: HistoryRange | None
) -> Findings:
    """What is wrong with rows of keys that are taken back."""
    taken = _hashes_taken_back(staged, schema, merging)
    if not len(taken):
        return NOTHING
    batches = (in_slice_types(pa.table(batch), schema, merging) for batch in staged.batches())
    rows = [
        batch.filter(pa.array(np.isin(hashes_of(batch, merging.key), taken))) for batch in batches
    ]
    return changelog_stream(merging, pa.concat_tables(rows), history).findings


def _hashes_taken_back(staged: Staged, schema: pa.Schema, merging: Merging) -> Hashes:
    found = []
    for batch in staged.batches():
        codes = batch.column(merging.op)
        rows = batch.filter(pc.is_in(codes, value_set=pa.array(_TAKES_BACK, codes.type)))
        found.append(
            np.unique(hashes_of(in_slice_types(pa.table(rows), schema, merging), merging.key))
        )
    return np.unique(np.concatenate(found))
