"""Compute the live rows of a published state: update the former ones by the new rows.

A row is only matched with rows that have the same key, or altogether the same values. So an update
needs only the new rows and the live rows with the same hashes; no others change. The first
publication is the same, with no former rows. Only `live_by_key` and `live_by_row` decide which
rows are live.

The data slices of a dataset, with the facts about their blocks that a publication needs.

Compute the live rows of a changelog without a primary key.

Each retraction retracts the live row with the same values and the greatest offset. With a key, the
live rows are the state: `live_by_key` of the projections.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from odf_protocol.chain.state import Vocab
from odf_protocol.columns.arrow_schema import decode_raw_arrow_schema, from_arrow, to_arrow
from odf_protocol.metadata.events import (
    AddData,
    DataSlice,
    ExecuteTransform,
    HashedBlock,
    SetDataSchema,
)
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash

from ...runtime.logs import line
from ...stores.ports import KeyedStore
from ..dataset.dataset import Dataset
from ..read.rows import (
    APPEND,
    CORRECT_FROM,
    CORRECT_TO,
    RETRACT,
    Scan,
    contents,
    is_one_of,
    live_by_key,
    takes_back,
)
from .definition import content_hash
from .live_index import Live, LiveIndex, LiveIndexDamaged, Offsets
from .matching import ROW, hashed, matched_columns, moved_on


@dataclass(frozen=True, slots=True)
class ChainSlice:
    """A slice, the number of its block, and whether it has the columns of the newest schema."""

    sequence: int
    data: DataSlice
    is_current: bool

    @property
    def rows(self) -> int:
        return self.data.offset_interval.count


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainView:
    """A dataset as of the block `head`."""

    head: HashedBlock
    path: frozenset[Multihash]
    """Hashes of all blocks."""
    slices: tuple[ChainSlice, ...]
    schema: pa.Schema
    vocab: Vocab
    last_offset: int | None
    watermark: str | None


def chain_view(dataset: Dataset, at: Multihash | None = None) -> ChainView:
    """Return the view up to a block, by default the head, with slices in offset order. Read each
    block of the chain once, and no data. Raise `BlockNotFound`."""
    found: list[tuple[int, DataSlice, pa.Schema | None]] = []
    path: list[Multihash] = []
    schema: pa.Schema | None = None
    tip = at or dataset.head()
    head = dataset.block(tip)
    for page in dataset.pages(upto=tip):
        for block in page:
            path.append(block.hash)
            match block.event:
                case SetDataSchema(schema=said, raw_arrow_schema=raw):
                    schema = _arrow(said, raw)
                case AddData(new_data=data) | ExecuteTransform(new_data=data) if data is not None:
                    found.append((block.sequence_number, data, schema))
                case _:
                    pass
    state = dataset.state(tip)
    final = pa.schema([]) if state.data_schema is None else to_arrow(state.data_schema)
    return ChainView(
        head=head,
        path=frozenset(path),
        slices=tuple(
            ChainSlice(number, data, then is not None and then.equals(final))
            for number, data, then in found
        ),
        schema=final,
        vocab=state.vocab,
        last_offset=state.last_offset,
        watermark=None if state.watermark is None else str(state.watermark),
    )


def _arrow(said: DataSchema | None, raw: bytes | None) -> pa.Schema:
    """Return a schema of either form, without the physical layout that its writer used."""
    if said is not None:
        return to_arrow(said)
    return to_arrow(from_arrow(decode_raw_arrow_schema(raw or b"")))


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
