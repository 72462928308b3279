"""Hash the columns by which rows are matched, and update live rows by new ones.

A row is only matched with rows that have the same key, or altogether the same values. So an update
needs only the new rows, and the live rows whose hash is that of a new row that asks for a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from odf_protocol.chain.state import Vocab

from ..merge_state.comparable import NotHashable, check_hashable, key_hashes
from ..read.rows import CORRECT_FROM, RETRACT, Scan

ROW = np.dtype([("hash", "<u8"), ("offset", "<i8"), ("asks", "?")])
"""`asks` says whether the row may affect earlier rows."""
Rows = np.ndarray[Any, np.dtype[np.void]]
Offsets = np.ndarray[Any, np.dtype[np.int64]]
Stands = np.ndarray[Any, np.dtype[np.bool_]]
"""Whether each row is live, by offset."""


def hashed(
    scan: Scan, vocab: Vocab, columns: Sequence[str], key: Sequence[str] | None, new: Offsets | None
) -> Iterator[Rows]:
    """Yield `ROW`s of the new rows (None: of all). If rows are matched as a whole, only retractions
    ask for a match."""
    needed = list(dict.fromkeys([*columns, vocab.offset_column, vocab.operation_type_column]))
    for batch in scan(needed, new):
        found = np.zeros(batch.num_rows, ROW)
        matched = [batch.column(name) for name in columns]
        if matched:
            found["hash"] = key_hashes(matched)
        found["offset"] = batch.column(vocab.offset_column).to_numpy().astype(np.int64)
        operation = batch.column(vocab.operation_type_column).to_numpy()
        found["asks"] = True if key else np.isin(operation, [RETRACT, CORRECT_FROM])
        yield found


def matched_columns(schema: pa.Schema, vocab: Vocab, key: Sequence[str] | None) -> list[str]:
    """Return the columns to hash: those by which rows are matched and that can be hashed. Hashing
    fewer columns only gives more candidate rows, never fewer."""
    ours = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    names = key or [name for name in schema.names if name not in ours]
    return [name for name in names if _is_hashed(schema.field(name).type)]


def moved_on(before: Stands, total: int, touched: Offsets, found: Offsets) -> Stands:
    """Return which of `total` rows are live. `found` are the live ones among the `touched` rows and
    the rows after `before`."""
    stands = np.concatenate([before, np.zeros(total - len(before), bool)])
    stands[touched] = False
    stands[found] = True
    return stands


def _is_hashed(kind: pa.DataType) -> bool:
    try:
        check_hashable([kind])
    except NotHashable:
        return False
    return not pa.types.is_nested(kind)
