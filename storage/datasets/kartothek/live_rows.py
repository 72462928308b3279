"""Rows of a changelog that stand: by primary key, or matched as a whole.

With a key the last row of each key stands if it adds. Without, each retraction takes back the row
of greatest offset that says the same and stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odf_node.protocol.chain.state import Vocab

from ..read.rows import (
    APPEND,
    CORRECT_FROM,
    CORRECT_TO,
    RETRACT,
    Scan,
    UnusableKey,
    contents,
    is_one_of,
    is_some_gone,
)

SETTLE_ROWS = 1 << 17
"""Rows that are gathered before they are made one per key again."""


def live_by_key(scan: Scan, vocab: Vocab, key: Sequence[str]) -> np.ndarray[Any, Any]:
    """Offsets of rows that stand, sorted. Null is null, NaN is NaN, -0.0 is 0.0."""
    needed = list(dict.fromkeys([*key, vocab.offset_column, vocab.operation_type_column]))
    settled: pa.Table | None = None
    pending: list[pa.Table] = []
    rows = 0
    for batch in scan(needed, None):
        pending.append(_keyed(batch, vocab, key))
        rows += batch.num_rows
        if rows >= SETTLE_ROWS:
            settled, pending, rows = _last_of_each(settled, pending, len(key)), [], 0
    settled = _last_of_each(settled, pending, len(key))
    if settled is None:
        return np.empty(0, np.int64)
    stands = pc.is_in(settled["op"], value_set=pa.array([APPEND, CORRECT_TO], pa.int64()))
    return np.sort(settled.filter(stands)["offset"].to_numpy().astype(np.int64))


def _keyed(batch: pa.RecordBatch, vocab: Vocab, key: Sequence[str]) -> pa.Table:
    columns = {f"k{at}": _same(batch.column(name)) for at, name in enumerate(key)}
    columns["offset"] = batch.column(vocab.offset_column).cast(pa.int64())
    columns["op"] = batch.column(vocab.operation_type_column).cast(pa.int64())
    return pa.table(columns)


def _same(column: pa.Array) -> pa.Array:
    """Equal floats have equal bits."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    return pc.add(pc.if_else(pc.is_nan(column), nan, column), pa.scalar(0.0, column.type))


def _last_of_each(settled: pa.Table | None, pending: list[pa.Table], keys: int) -> pa.Table | None:
    parts = [*([] if settled is None else [settled]), *pending]
    if not parts:
        return None
    names = [f"k{at}" for at in range(keys)]
    try:
        whole = pa.concat_tables(parts).combine_chunks()
        last = whole.group_by(names, use_threads=False).aggregate(
            [("offset", "last"), ("op", "last")]
        )
    except (pa.ArrowNotImplementedError, pa.ArrowKeyError) as broken:
        raise UnusableKey(f"the primary key cannot be used: {str(broken)[:200]}") from None
    return last.rename_columns([name.removesuffix("_last") for name in last.column_names])


def live_by_row(scan: Scan, vocab: Vocab) -> tuple[np.ndarray[Any, Any], int]:
    """Offsets of rows that stand, sorted; and how many retractions took back nothing."""
    wanted: set[tuple[Any, ...]] = set()
    if any(is_some_gone(batch, vocab) for batch in scan([vocab.operation_type_column], None)):
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
