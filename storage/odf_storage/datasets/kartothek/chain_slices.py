"""The data slices of a dataset, with the facts about their blocks that a publication needs."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from odf_protocol.arrow_schema import decode_raw_arrow_schema, from_arrow, to_arrow
from odf_protocol.chain.state import Vocab
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.metadata.data import DataSlice
from odf_protocol.metadata.events import AddData, ExecuteTransform, SetDataSchema
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash

from ..dataset.dataset import Dataset


@dataclass(frozen=True, slots=True)
class ChainSlice:
    """A slice, the number of its block, and whether it has the columns of the newest schema."""

    sequence: int
    data: DataSlice
    is_current: bool

    @property
    def rows(self) -> int:
        return self.data.offset_interval.end - self.data.offset_interval.start + 1


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
