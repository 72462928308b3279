"""Follow chains backwards in pages, so that memory does not grow with their length."""

from __future__ import annotations

from collections.abc import Iterator

from odf_protocol.identity import DatasetId
from odf_protocol.metadata.block import HashedBlock
from odf_protocol.multihash import Multihash

from ...stores.ports import BlockIndex, DatasetEntries, UploadedFiles
from ...stores.ports.errors import BlockNotFound
from ...stores.ports.values import AccountId, DatasetEntry, ObjectKey, ObjectKind

PAGE = 500


def walk_back(blocks: BlockIndex, dataset: DatasetId, start: Multihash) -> Iterator[HashedBlock]:
    """Yield `start` and all its ancestors, newest first; at most `PAGE` blocks are in memory.

    Raises:
        BlockNotFound: a block of the chain is missing. BlockDamaged.
    """
    following: Multihash | None = start
    while following is not None:
        page = blocks.ancestors(dataset, following, limit=PAGE)
        if not page:
            raise BlockNotFound(following)
        yield from page
        following = page[-1].prev


def is_kept_file(files: UploadedFiles, key: ObjectKey) -> bool:
    """Return whether it is a file that an account uploaded; its key has the id of the account in
    place of a dataset."""
    if key.kind is not ObjectKind.UPLOAD:
        return False
    return files.has_content(AccountId(str(key.dataset)), key.hash)


def entries(registry: DatasetEntries) -> Iterator[DatasetEntry]:
    """Yield every registered dataset, in the order of aliases."""
    after = None
    while page := registry.page(after=after, limit=PAGE):
        yield from page
        after = page[-1].alias.folded
