"""Blocks on the disk before it is known whether they are wanted.

Writing a hundred thousand files takes as long as decoding and checking them. So who takes in
a long chain hands each block over as it comes, and says at the commit that they are wanted.
Until then nobody sees them; a store that cannot do that is given all of them at the commit.
"""

from __future__ import annotations

from protocol.identity import DatasetId
from protocol.metadata.block import HashedBlock

from .layout import DATASETS, KIND_FOLDERS
from .objects.local import LocalObjectStore
from .objects.staged_files import StagedFiles
from .ports import ObjectStore
from .values import ObjectKind


class BlocksAhead:
    """Blocks of one dataset, which need not exist yet; `close` it. Not for several threads at
    once."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._staged: StagedFiles | None = None
        if isinstance(objects, LocalObjectStore):
            self._staged = objects.staged(DATASETS)

    def add(self, block: HashedBlock) -> None:
        """Raises `StorageFull`, `StorageReadOnly`, `OSError`."""
        if self._staged is not None:
            self._staged.add(str(block.hash), block.raw)

    def put(self, dataset: DatasetId) -> bool:
        """All that were added are objects of the dataset; False: they have to be put as others.

        Raises:
            StorageFull, StorageReadOnly, FolderRemoved, OSError.
        """
        if self._staged is None or not isinstance(self._objects, LocalObjectStore):
            return False
        folder = self._objects.folder(dataset).root / KIND_FOLDERS[ObjectKind.BLOCK]
        return self._staged.publish(folder)

    def close(self) -> None:
        """What is not wanted goes."""
        if self._staged is not None:
            self._staged.close()
