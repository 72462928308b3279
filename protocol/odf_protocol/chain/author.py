"""Authoring: turns events into blocks with number, link, time and hash, and checks the rules.

Authored blocks keep all rules, including those that other nodes do not check.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..codec.blocks import encode_block
from ..instant import Instant
from ..metadata.block import HashedBlock, MetadataBlock
from ..metadata.events import MetadataEvent
from .rules import append_authored
from .state import ChainState


def author(
    state: ChainState, events: Iterable[MetadataEvent], *, system_time: Instant
) -> tuple[list[HashedBlock], ChainState]:
    """Return the blocks for the events, oldest first, and the state after them.

    All blocks get `system_time`. A caller whose clock may be slow passes the later one of the
    current time and `state.system_time`.

    Raises:
        ChainRuleBroken: an event may not follow, or `system_time` is before the state's.
        Unencodable: a block cannot represent a value.
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
        state = append_authored(state, block)
        blocks.append(block)
    return blocks, state
