"""Writing blocks: events become blocks with number, link, time and hash, rules checked.

What others wrote is judged by the chain's rules alone; what we write must also declare the
system columns as every reader expects them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..codec.blocks import encode_block
from ..instant import Instant
from ..metadata.block import HashedBlock, MetadataBlock
from ..metadata.events import MetadataEvent, SetDataSchema
from .errors import InvalidEvent
from .rules import append
from .schema_evolution import odf_schema, unfit_system_columns
from .state import ChainState


def author(
    state: ChainState, events: Iterable[MetadataEvent], *, system_time: Instant
) -> tuple[list[HashedBlock], ChainState]:
    """Blocks for the events, oldest first, and the state after them.

    All blocks carry `system_time`; a caller whose clock may be behind passes the later of
    now and `state.system_time`.

    Raises:
        ChainRuleBroken: an event may not follow, or `system_time` is before the state's.
        Unencodable: a value the wire cannot carry.
    """
    blocks: list[HashedBlock] = []
    for event in events:
        number = 0 if state.sequence_number is None else state.sequence_number + 1
        block = encode_block(
            MetadataBlock(
                system_time=system_time,
                prev_block_hash=state.head,
                sequence_number=number,
                event=event,
            )
        )
        after = append(state, block)
        if isinstance(event, SetDataSchema) and state.schema is None:
            _check_system_columns(state, block, event)
        blocks.append(block)
        state = after
    return blocks, state


def _check_system_columns(state: ChainState, block: HashedBlock, event: SetDataSchema) -> None:
    """Later schemas cannot lose what the first one has."""
    schema = odf_schema(event)
    problems = unfit_system_columns(schema, state.vocab.columns)
    if len({field.name for field in schema.fields}) < len(schema.fields):
        problems.append("two columns share one name")
    if problems:
        raise InvalidEvent(block, "; ".join(problems)).named("system_columns_are_declared")
