"""The chain of a dataset as the index stores it: blocks along a path, and the state they add up to.

The caller that makes a `Chain` chooses the reads it uses, and so which reads share a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odf_protocol.chain.rules import fold_received as fold
from odf_protocol.chain.state import EMPTY, ChainState
from odf_protocol.identity import DatasetId
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import Multihash

from ...runtime.garbage_collection import without_garbage_collection
from ...stores.index.stored_block import decode_stored
from ...stores.ports import BlockIndex, Heads
from ...stores.ports.errors import BlockNotFound
from .state_cache import KnownStates

PAGE = 1000
"""Limit of blocks in memory at a time when a chain is folded."""
NEAR = 8
"""Number of blocks between the newest one and that of a known state up to which one page has all of
them; beyond, the path is queried."""


class Chain:
    """One chain. `states` is the cache of the states that were folded from it."""

    def __init__(
        self, dataset: DatasetId, refs: Heads, blocks: BlockIndex, states: KnownStates
    ) -> None:
        self._dataset = dataset
        self._refs, self._blocks, self._states = refs, blocks, states

    def state(self, head: Multihash | None = None) -> ChainState:
        """Return the state of the chain as of `head`, by default the newest block. Raises
        `BlockNotFound`."""
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
        with without_garbage_collection():
            for page in self.along(path):
                state = fold(page, state)
        self._states.keep(self._dataset, state, folded=len(path))
        return state

    def _nearly_known(self, target: Multihash) -> ChainState | None:
        """Return the state if it is known as of one of the last blocks before `target`, else None.
        This saves callers that follow a moving head the query for the whole path."""
        rows = self._blocks.raw(self._dataset, target, limit=NEAR + 2)
        for count, (block, _) in enumerate(rows[1:], 1):
            known = self._states.find(self._dataset, block)
            if known is not None:  # no older block is decoded: it may be damaged
                state = fold([decode_stored(*row) for row in reversed(rows[:count])], known)
                self._states.keep(self._dataset, state, folded=count)
                return state
        return None

    def along(self, path: Sequence[Multihash]) -> Iterator[list[HashedBlock]]:
        """Yield the blocks of a `path`, oldest first, with at most `PAGE` of them in memory at a
        time."""
        for start, count in page_starts(path):
            yield list(reversed(self._blocks.ancestors(self._dataset, start, limit=count)))


def page_starts(newest_first: Sequence[Multihash]) -> Iterator[tuple[Multihash, int]]:
    """Yield the newest block and the length of each page of a path, oldest page first."""
    for end in range(len(newest_first), 0, -PAGE):
        count = min(PAGE, end)
        yield newest_first[end - count], count
