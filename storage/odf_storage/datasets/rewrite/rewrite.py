"""Make the blocks of a planned history and move the head onto them, or change nothing.

Blocks before the first change keep their hashes; later blocks get new numbers and links and keep
their system times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odf_protocol.chain.rules import append_received
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.codec.blocks import encode_block
from odf_protocol.instant import Instant
from odf_protocol.metadata.block import HashedBlock, MetadataBlock
from odf_protocol.metadata.data import DataSlice
from odf_protocol.metadata.events import MetadataEvent
from odf_protocol.multihash import Multihash

from ...stores.ports.errors import RefConflict
from ..dataset.dataset import Dataset, check_objects, put_blocks
from ..node.stores import Stores
from .compaction import Merge, Step, event_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A new end of a chain: `blocks` after `base` replace the blocks that lead to `old_head`."""

    old_head: Multihash
    base: Multihash
    blocks: tuple[HashedBlock, ...]
    state: ChainState

    @property
    def head(self) -> Multihash:
        return self.blocks[-1].hash if self.blocks else self.base


def rewritten(
    dataset: Dataset,
    old: Sequence[HashedBlock],
    steps: Sequence[Step],
    slices: dict[tuple[Multihash, ...], DataSlice],
) -> Rewrite:
    """Return the blocks for the steps, which replace the whole chain `old` and keep the rules.

    Raises:
        ChainRuleBroken: the old chain broke a rule already.
        NotUnderstood: the chain has events of a newer writer; their blocks cannot be rewritten.
    """
    dataset.state(old[-1].hash).require_understood()
    same = _common(old, steps)
    state = dataset.state(old[same - 1].hash) if same else EMPTY
    blocks: list[HashedBlock] = []
    for step in steps[same:]:
        event, system_time = event_of(step, slices)
        blocks.append(_linked(state, event, system_time))
        state = append_received(state, blocks[-1])
    return Rewrite(
        old_head=old[-1].hash,
        base=old[same - 1].hash if same else old[0].hash,
        blocks=tuple(blocks),
        state=state,
    )


def _linked(state: ChainState, event: MetadataEvent, system_time: Instant) -> HashedBlock:
    """Encode a block with the event after the state; declarations are not checked again."""
    number = 0 if state.sequence_number is None else state.sequence_number + 1
    return encode_block(
        MetadataBlock(
            system_time=system_time,
            prev_block_hash=state.head,
            sequence_number=number,
            event=event,
        )
    )


def _common(old: Sequence[HashedBlock], steps: Sequence[Step]) -> int:
    """Return the number of blocks at the start that do not change."""
    for at, (block, step) in enumerate(zip(old, steps, strict=False)):
        if isinstance(step, Merge) or step.block.hash != block.hash:
            return at
    return min(len(old), len(steps))


def swap(stores: Stores, dataset: Dataset, rewrite: Rewrite) -> None:
    """Check the objects, write the blocks, then move the head if it is still the old one.

    Raises:
        RefConflict: another writer moved the head.
        ObjectMissing, SizeMismatch: an object is absent or of another size.
    """
    check_objects(stores.objects, dataset.id, rewrite.blocks)
    put_blocks(stores.objects, dataset.id, rewrite.blocks)
    move_head(stores, dataset, rewrite.old_head, rewrite.head, rewrite.blocks)
    stores.states.keep(dataset.id, rewrite.state, folded=len(rewrite.blocks))


def move_head(
    stores: Stores,
    dataset: Dataset,
    old: Multihash,
    new: Multihash,
    blocks: Sequence[HashedBlock] = (),
) -> None:
    """Compare and swap the head, and publish it. Raise `RefConflict`, `DatasetNotFound`."""
    if dataset.head() != old:
        raise RefConflict(old, dataset.head())
    stores.refs.move(dataset.id, expected=old, new=new, blocks=blocks, of=dataset.entry)
    stores.publish_head(dataset.id)
