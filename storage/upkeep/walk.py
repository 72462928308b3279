"""Following chains backwards, a page at a time, however long they are."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.identity import DatasetId
from protocol.metadata.block import HashedBlock
from protocol.multihash import Multihash

from ..errors import BlockNotFound
from ..ports import BlockIndex, DatasetRegistry
from ..values import DatasetEntry

PAGE = 500


def walk_back(blocks: BlockIndex, dataset: DatasetId, start: Multihash) -> Iterator[HashedBlock]:
    """`start` and everything before it, newest first; at most `PAGE` blocks in memory.

    Raises:
        BlockNotFound: the chain has a hole. BlockDamaged.
    """
    following: Multihash | None = start
    while following is not None:
        page = blocks.ancestors(dataset, following, limit=PAGE)
        if not page:
            raise BlockNotFound(following)
        yield from page
        following = page[-1].prev


def entries(registry: DatasetRegistry) -> Iterator[DatasetEntry]:
    """Every registered dataset, by alias."""
    after = None
    while page := registry.page(after=after, limit=PAGE):
        yield from page
        after = page[-1].alias.folded
