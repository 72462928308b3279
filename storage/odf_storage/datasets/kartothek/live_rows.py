"""Compute the live rows of a changelog without a primary key.

Each retraction retracts the live row with the same values and the greatest offset. With a key, the
live rows are the state: `live_by_key` of the projections.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from odf_protocol.chain.state import Vocab

from ..read.rows import (
    APPEND,
    CORRECT_FROM,
    CORRECT_TO,
    RETRACT,
    Scan,
    contents,
    is_one_of,
    takes_back,
)


def live_by_row(scan: Scan, vocab: Vocab) -> tuple[np.ndarray[Any, Any], int]:
    """Return the sorted offsets of live rows, and the number of retractions of nothing."""
    wanted: set[tuple[Any, ...]] = set()
    if takes_back(scan, vocab):
        for batch in scan(None, None):
            gone = batch.filter(is_one_of(batch, vocab, RETRACT, CORRECT_FROM))
            wanted.update(content for _, content in contents(gone, vocab))
    live: list[int] = []
    standing: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    unmatched = 0
    columns = None if wanted else [vocab.offset_column]
    for batch in scan(columns, None):
        if not wanted:
            live.extend(batch.column(vocab.offset_column).to_pylist())
            continue
        operations = batch.column(vocab.operation_type_column).to_pylist()
        for operation, (offset, content) in zip(operations, contents(batch, vocab), strict=True):
            if operation in (APPEND, CORRECT_TO):
                (standing[content] if content in wanted else live).append(offset)
            elif standing[content]:
                standing[content].pop()
            else:
                unmatched += 1
    live.extend(offset for offsets in standing.values() for offset in offsets)
    return np.sort(np.array(live, np.int64)), unmatched
