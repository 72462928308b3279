"""Slices as hashed files that a query process may read, and the folders of these files.

If the store keeps local files, a process reads them in place. From a bucket the service copies them
into a folder, where it keeps the most recently used copies.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.multihash import Multihash
from odf_storage.datasets.node.stores import Stores
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ..readers.materials import Materials

IN_USE_S = 600.0
"""A copy that was requested in the last so many seconds is not removed."""


@dataclass(frozen=True)
class SliceFiles:
    """Finds the files of slices; `copies` is the folder of copies from buckets."""

    stores: Stores
    copies: Path
    max_bytes: int

    def folder(self, dataset: DatasetId, some: Multihash | None) -> Path:
        """Return the folder of a dataset's files; `some` is any of its slices."""
        local = self.stores.objects.local_paths
        if local is not None and some is not None:
            key = ObjectKey(dataset, ObjectKind.DATA, some)
            return local.path(key).absolute().parent
        folder = self.copies / dataset.multibase
        folder.mkdir(parents=True, exist_ok=True)
        return folder.absolute()

    def paths(self, dataset: DatasetId, slices: list[Multihash]) -> list[str]:
        """Return the paths of the slices' files, whose hashes were checked.

        Raises:
            ObjectDamaged, ObjectHealing: a file is damaged or missing.
        """
        stored = self.stores.dataset(DatasetRef(id=dataset))
        folder = self.copies / dataset.multibase
        found = []
        for name in slices:
            path = stored.whole_file(ObjectKind.DATA, name, folder / str(name))
            if self.stores.objects.local_paths is None:
                os.utime(path)
            found.append(str(path.absolute()))
        if self.stores.objects.local_paths is None:
            self._make_room()
        return found

    def open_index(self, dataset: DatasetId, key: str) -> BinaryIO | None:
        """Open a file of the node's index of a dataset; None if it does not exist."""
        stored = self.stores.dataset(DatasetRef(id=dataset))
        return Materials(stored, self.stores.projections).open_index(key)

    def _make_room(self) -> None:
        """Remove the least recently used copies until the rest is within `max_bytes`."""
        known = [(path, path.stat()) for path in self.copies.glob("*/*") if path.is_file()]
        left = sum(each.st_size for _, each in known) - self.max_bytes
        for path, each in sorted(known, key=lambda one: one[1].st_mtime):
            if left <= 0 or each.st_mtime > time.time() - IN_USE_S:
                return
            path.unlink(missing_ok=True)
            left -= each.st_size
