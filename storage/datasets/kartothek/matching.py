"""What rows are matched by, as hashes of whole columns, and standing rows moved on by new ones.

Rows are only ever matched with rows that say the same (of the key, or altogether): new rows, and
the standing ones with the hash of one of them that asks, decide among themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from odf_node.protocol.chain.state import Vocab

from ..merge_state.key_hash import NotHashable, check_hashable, key_hashes
from ..read.rows import CORRECT_FROM, RETRACT, Scan

ROW = np.dtype([("hash", "<u8"), ("offset", "<i8"), ("asks", "?")])
"""`asks`: whether it has to do with rows before it."""
Rows = np.ndarray[Any, np.dtype[np.void]]
Offsets = np.ndarray[Any, np.dtype[np.int64]]
Stands = np.ndarray[Any, np.dtype[np.bool_]]
"""By offset."""


def hashed(
    scan: Scan, vocab: Vocab, columns: Sequence[str], key: Sequence[str] | None, new: Offsets | None
) -> Iterator[Rows]:
    """`ROW`s of rows that are new, None: of all. Where rows are matched as a whole, only those ask
    that take back."""
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
    """Columns that are hashed: those that rows are matched by, as far as they have a hash. Fewer
    columns give more rows to look at, never less."""
    ours = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    names = key or [name for name in schema.names if name not in ours]
    return [name for name in names if _is_hashed(schema.field(name).type)]


def moved_on(before: Stands, total: int, touched: Offsets, found: Offsets) -> Stands:
    """Which of `total` rows stand, where `found` are those that do of the `touched` ones and of the
    rows behind `before`."""
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
