"""Rules of every block, whatever its event: seed, links, numbers, system time, kind.

Each rule is a function of (state, block, event) that raises or returns nothing; `rules.py` has
the order in which they are checked.
"""

# ruff: noqa: ARG001 - all rules have the same parameters, and few need all three
from __future__ import annotations

from ..metadata.block import HashedBlock, UnknownEvent
from ..metadata.events import DatasetKind, Seed
from .errors import (
    AppendingSeedBlockToNonEmptyChain,
    FirstBlockMustBeSeed,
    InvalidEvent,
    PrevBlockNotFound,
    SequenceIntegrity,
    SystemTimeIsNotMonotonic,
)
from .state import ChainState


def seed_comes_first(state: ChainState, block: HashedBlock, event: object) -> None:
    if block.block.prev_block_hash is None and not isinstance(event, Seed):
        raise FirstBlockMustBeSeed(block, "it names no previous block, and its event is not Seed")


def seed_comes_once(state: ChainState, block: HashedBlock, event: object) -> None:
    linked = block.block.prev_block_hash is not None or state.head is not None
    if linked and (isinstance(event, Seed) or _is_newer_seed(event)):
        raise AppendingSeedBlockToNonEmptyChain(block, "the chain has its Seed already")


def _is_newer_seed(event: object) -> bool:
    return isinstance(event, UnknownEvent) and event.name == "Seed"


def numbers_begin_at_zero(state: ChainState, block: HashedBlock, event: object) -> None:
    inner = block.block
    if inner.prev_block_hash is None and inner.sequence_number != 0:
        raise SequenceIntegrity(
            block,
            f"the first block has number 0, not {inner.sequence_number}",
            nextNumber=inner.sequence_number,
        )


def previous_block_is_the_head(state: ChainState, block: HashedBlock, event: object) -> None:
    prev = block.block.prev_block_hash
    # Identity first, which is faster: a chain decoded in one pass shares its hashes.
    if prev is not None and prev is not state.head and prev != state.head:
        end = f"ends with {state.head}" if state.head else "is empty"
        raise PrevBlockNotFound(
            block,
            f"its previous block {prev} was not found, the chain {end}",
            prevBlockHash=str(prev),
        )


def numbers_have_no_gaps(state: ChainState, block: HashedBlock, event: object) -> None:
    inner = block.block
    before = state.sequence_number
    if before is not None and inner.sequence_number != before + 1:
        raise SequenceIntegrity(
            block,
            f"number {before + 1} comes after {before}, not {inner.sequence_number}",
            prevBlockHash=None if state.head is None else str(state.head),
            prevNumber=before,
            nextNumber=inner.sequence_number,
        )


def system_time_never_goes_back(state: ChainState, block: HashedBlock, event: object) -> None:
    before, now = state.system_time, block.block.system_time
    if before is not None and now.ns < before.ns:
        raise SystemTimeIsNotMonotonic(
            block,
            f"its system time {now} is earlier than {before} of the block before it",
            previous=str(before),
            new=str(now),
        )


def only_a_root_receives_data(state: ChainState, block: HashedBlock, event: object) -> None:
    if state.kind is DatasetKind.Derivative:
        raise InvalidEvent(block, f"{type(event).__name__} has no place in a derivative dataset")


def only_a_derivative_transforms(state: ChainState, block: HashedBlock, event: object) -> None:
    if state.kind is DatasetKind.Root:
        raise InvalidEvent(block, f"{type(event).__name__} has no place in a root dataset")
