"""The chain of a dataset as the index has it: blocks along a path, and what they say together.

Whoever makes one says which reads it goes by, and with that what shares a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odf_node.protocol.chain.rules import fold_received as fold
from odf_node.protocol.chain.state import EMPTY, ChainState
from odf_node.protocol.identity import DatasetId
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.multihash import Multihash

from ...stores.ports import BlockIndex, Heads
from ...stores.ports.errors import BlockNotFound
from .state_cache import KnownStates

PAGE = 1000
"""Blocks in memory at a time when a chain is folded."""
NEAR = 2
"""Blocks that are looked at one by one before the way to a known state is asked for."""


class Chain:
    """One chain. `states` gives and takes what was folded of it."""

    def __init__(
        self, dataset: DatasetId, refs: Heads, blocks: BlockIndex, states: KnownStates
    ) -> None:
        self._dataset = dataset
        self._refs, self._blocks, self._states = refs, blocks, states

    def state(self, head: Multihash | None = None) -> ChainState:
        """What the chain says as of `head`, by default the newest block. `BlockNotFound`."""
        target = head or self._refs.head(self._dataset)
        if (whole := self._states.find(self._dataset, target)) is not None:
            return whole
        if (whole := self._nearly_known(target)) is not None:
            return whole
        state, path = EMPTY, list[Multihash]()
        kept = self._states.kept(self._dataset)
        for block in self._blocks.lineage(self._dataset, target):
            known = self._states.find(self._dataset, block)
            if known is None and kept is not None and kept.head == block:
                known = kept
            if known is not None:
                state = known
                break
            path.append(block)
        if state is EMPTY and not path:
            raise BlockNotFound(target)
        for page in self.along(path):
            state = fold(page, state)
        self._states.keep(self._dataset, state, folded=len(path))
        return state

    def _nearly_known(self, target: Multihash) -> ChainState | None:
        """The state if it is known as of a block right before: who follows a head that moves
        need not ask for the way back."""
        blocks: list[HashedBlock] = []
        at: Multihash | None = target
        while at is not None and len(blocks) < NEAR:
            block = self._blocks.find(self._dataset, at)
            if block is None:
                return None
            blocks.insert(0, block)
            at = block.prev
            known = None if at is None else self._states.find(self._dataset, at)
            if known is not None:
                state = fold(blocks, known)
                self._states.keep(self._dataset, state, folded=len(blocks))
                return state
        return None

    def along(self, path: Sequence[Multihash]) -> Iterator[list[HashedBlock]]:
        """Blocks of a `path`, oldest first, at most `PAGE` of them in memory at a time."""
        for start, count in page_starts(path):
            yield list(reversed(self._blocks.ancestors(self._dataset, start, limit=count)))


def page_starts(newest_first: Sequence[Multihash]) -> Iterator[tuple[Multihash, int]]:
    """Newest block and length of each page of a path, oldest page first."""
    for end in range(len(newest_first), 0, -PAGE):
        count = min(PAGE, end)
        yield newest_first[end - count], count
