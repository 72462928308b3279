"""Compute the live rows of a published state: update the former ones by the new rows.

A row is only matched with rows that have the same key, or altogether the same values. So an update
needs only the new rows and the live rows with the same hashes; no others change. The first
publication is the same, with no former rows. Only `live_by_key` and `live_by_row` decide which
rows are live.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from odf_protocol.multihash import Multihash

from ...runtime.logs import line
from ...stores.ports import KeyedStore
from ..read.rows import Scan, live_by_key
from .chain_slices import ChainView
from .live_index import Live, LiveIndex, LiveIndexDamaged, Offsets
from .live_rows import live_by_row
from .matching import ROW, hashed, matched_columns, moved_on
from .publication import content_hash

_log = logging.getLogger("odf.kartothek")


def standing_rows(
    scan: Scan, chain: ChainView, key: Sequence[str] | None, kept: KeyedStore | None
) -> tuple[Offsets, int]:
    """Return the sorted offsets of rows that are live at the head, and the number of retractions
    that retracted nothing.

    `key` None matches whole rows. Only slices newer than the `kept` index are read, and those with
    rows of the same hashes; all slices if nothing is kept. Memory: a byte for each row of the
    dataset, and 16 bytes for each new row.

    Raises:
        UnusableKey. SwapLost: another run has saved its index meanwhile.
    """
    columns = matched_columns(chain.schema, chain.vocab, key)
    if kept is None:
        live = _advanced(scan, chain, key, columns, None, None)
    else:
        types = [str(chain.schema.field(name).type) for name in columns]
        content = [] if key else [*chain.schema.names]
        spec = content_hash(json.dumps([list(key or ()), columns, types, content]).encode())
        live = _kept(scan, chain, key, columns, LiveIndex(kept, spec))
    return np.flatnonzero(live.stands).astype(np.int64), live.unmatched


def _kept(
    scan: Scan, chain: ChainView, key: Sequence[str] | None, columns: list[str], index: LiveIndex
) -> Live:
    try:
        known = index.load()
        if known is not None and Multihash.parse(known.head) not in chain.path:
            index.begin_anew()
            known = None
        return _advanced(scan, chain, key, columns, known, index)
    except LiveIndexDamaged as damaged:
        _log.warning(line("rows that stand are worked out anew", reason=damaged.message))
        index.begin_anew()
        return _advanced(scan, chain, key, columns, None, index)


def _advanced(
    scan: Scan,
    chain: ChainView,
    key: Sequence[str] | None,
    columns: list[str],
    known: Live | None,
    index: LiveIndex | None,
) -> Live:
    total = 0 if chain.last_offset is None else chain.last_offset + 1
    before = np.zeros(0, bool) if known is None else known.stands
    new = np.arange(len(before), total, dtype=np.int64)
    batches = hashed(scan, chain.vocab, columns, key, new)
    rows = np.concatenate([np.zeros(0, ROW), *batches])
    touched = np.zeros(0, np.int64)
    if index is not None and known is not None:
        touched = index.find(rows["hash"][rows["asks"]])
        touched = touched[before[touched]]
    some = np.concatenate([touched, new])

    def narrowed(names: Sequence[str] | None, _: object) -> Iterator[pa.RecordBatch]:
        return scan(names, some)

    if key:
        found, unmatched = live_by_key(narrowed, chain.vocab, key), 0
    else:
        found, unmatched = live_by_row(narrowed, chain.vocab)
    live = Live(
        head=str(chain.head.hash),
        stands=moved_on(before, total, touched, found),
        unmatched=unmatched + (0 if known is None else known.unmatched),
    )
    if index is not None:
        index.save(live, rows["hash"], rows["offset"])
    return live
