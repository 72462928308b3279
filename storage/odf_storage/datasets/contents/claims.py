"""Collect what blocks declare about their slices, as one claim for each slice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from odf_protocol.chain.state import ChainState, Vocab
from odf_protocol.errors import BadInput
from odf_protocol.instant import Instant
from odf_protocol.metadata.events import AddData, DataSlice, ExecuteTransform, HashedBlock
from odf_protocol.metadata.schema import DataSchema
from odf_protocol.multihash import Multihash


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedColumns:
    """The columns of slices from one block on: the schema in force and the names of system
    columns."""

    schema: DataSchema | None
    """None if the schema of the chain is in an old form that cannot be read here."""
    vocab: Vocab
    may_judge_nulls: bool
    """Whether nulls in required columns are errors. They are not under the old form of a schema,
    because its writers did not record reliably which columns are optional."""

    @classmethod
    def of(cls, state: ChainState) -> ClaimedColumns:
        try:
            schema = state.data_schema
        except BadInput:
            schema = None
        exact = state.schema is not None and state.schema.schema is not None
        return cls(schema=schema, vocab=state.vocab, may_judge_nulls=exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceClaim:
    """One slice as its block declares it."""

    block: Multihash
    sequence_number: int
    system_time: Instant
    declared: DataSlice
    columns: ClaimedColumns


def slice_claims(blocks: Iterable[HashedBlock], before: ChainState) -> Iterator[SliceClaim]:
    """Yield the claims of the slices in `blocks`, oldest first. `before` is the state before
    them."""
    state, columns = before, ClaimedColumns.of(before)
    for block in blocks:
        event = block.event
        if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
            yield SliceClaim(
                block=block.hash,
                sequence_number=block.sequence_number,
                system_time=block.block.system_time,
                declared=event.new_data,
                columns=columns,
            )
        after = state.after(block)
        if after.schema is not state.schema or after.vocab is not state.vocab:
            columns = ClaimedColumns.of(after)
        state = after
