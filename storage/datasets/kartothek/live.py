"""Rows that a publication of the state has: what stood before, moved on by the rows that are new.

Rows are only ever matched with rows that say the same (of the key, or altogether), so that new rows
and the standing ones with the same hash decide among themselves; nothing else changes. The
first publication is the same, with nothing that stood before. What says which rows stand is
`live_by_key` and `live_by_row`, and nothing here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from odf_node.protocol.multihash import Multihash

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
    """Sorted offsets of rows that stand at the head, and how many retractions took back nothing.

    `key` None matches whole rows. Slices are read that are newer than what is `kept`, and those
    that hold rows with the same hashes; all of them where nothing is kept. Takes memory for a byte
    of each row there is, and 16 bytes of each new one.

    Raises:
        UnusableKey. SwapLost: another run kept its own meanwhile.
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
