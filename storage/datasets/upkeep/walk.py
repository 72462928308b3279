"""Following chains backwards, a page at a time, however long they are."""

from __future__ import annotations

from collections.abc import Iterator

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.metadata.block import HashedBlock
from odf_node.protocol.multihash import Multihash

from ...stores.ports import BlockIndex, DatasetEntries, UploadedFiles
from ...stores.ports.errors import BlockNotFound
from ...stores.ports.values import AccountId, DatasetEntry, ObjectKey, ObjectKind

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


def is_kept_file(files: UploadedFiles, key: ObjectKey) -> bool:
    """Whether it is a file an account uploaded: those lie under the account's own id."""
    if key.kind is not ObjectKind.UPLOAD:
        return False
    return files.has_content(AccountId(str(key.dataset)), key.hash)


def entries(registry: DatasetEntries) -> Iterator[DatasetEntry]:
    """Every registered dataset, by alias."""
    after = None
    while page := registry.page(after=after, limit=PAGE):
        yield from page
        after = page[-1].alias.folded
