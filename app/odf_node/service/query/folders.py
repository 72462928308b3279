"""Datasets in local folders as inputs of queries: named tables, each file hashed before use.

Slices as hashed files that a query process may read, and the folders of these files.

If the store keeps local files, a process reads them in place. From a bucket the service copies them
into a folder, where it keeps the most recently used copies.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from anyio import to_thread

from odf_protocol.errors import BadInput, NotFound
from odf_protocol.identity import DatasetId, DatasetRef
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.datasets.integrity.healing import hash_of_stream
from odf_storage.datasets.node.stores import Stores
from odf_storage.datasets.read.read import scanning
from odf_storage.datasets.read.rows import takes_back
from odf_storage.datasets.read.view import Outline, outline_of_source
from odf_storage.datasets.verify.source import FolderSource
from odf_storage.stores.objects.pending_files import FolderObjects
from odf_storage.stores.ports.values import ObjectKey, ObjectKind

from ..auth.actors import Actor
from ..readers.messages import Materials
from .inputs import DatasetPin, SliceSource, views_by_alias


class FolderInputs:
    """Folders by their table names in lower case, as of their heads or of one block."""

    def __init__(self, folders: Mapping[str, FolderObjects], at: Multihash | None = None) -> None:
        self._folders, self._at = folders, at
        self._by_id: dict[DatasetId, FolderObjects] = {}

    def sources(self, _actor: Actor, query: str, pins: Sequence[DatasetPin]) -> list[SliceSource]:
        """Return the folders that the query names.

        Raises `PinsOfFolders`, and the errors of reading a chain.
        """
        if pins:
            raise BadInput("PinsOfFolders", "folders have no pins; ask as of a block instead")
        found = []
        for alias, views in views_by_alias(query).items():
            if (folder := self._folders.get(alias.lower())) is not None:
                dataset, outline = self._looked_at(folder)
                found.append(
                    SliceSource(alias=alias, views=frozenset(views), id=dataset, outline=outline)
                )
        return found

    def renamed(self, _actor: Actor, _alias: str) -> None:
        """Return no name of today: a folder keeps no former names."""

    def names(self, _actor: Actor) -> list[str]:
        """Return the names of all folders."""
        return [*self._folders]

    def _looked_at(self, folder: FolderObjects) -> tuple[DatasetId, Outline]:
        outline = outline_of_source(FolderSource(folder), self._at)
        if outline.dataset is None:
            raise NotFound("NoDataset", f"{folder.root} holds no dataset")
        self._by_id[outline.dataset] = folder
        return outline.dataset, outline

    async def takes_back(self, dataset: DatasetId, outline: Outline, _caller: str) -> bool:
        """Return whether a row retracts or corrects another. Raises the errors of reading."""
        view = outline.on(FolderSource(self._by_id[dataset]))

        def looked() -> bool:
            with scanning(view) as scan:
                return takes_back(scan, view.vocab)

        return await to_thread.run_sync(looked)

    def folder(self, dataset: DatasetId, some: Multihash | None) -> Path:
        """Return the folder of the dataset's slices; `some` is any of them."""
        objects = self._by_id[dataset]
        return objects.root if some is None else objects.path(ObjectKind.DATA, some).parent

    def open_index(self, _dataset: DatasetId, _key: str) -> BinaryIO | None:
        """Return None: a folder has no index."""
        return None

    def paths(self, dataset: DatasetId, slices: list[Multihash]) -> list[str]:
        """Return the paths of the slices' files. Raises `HashMismatch`."""
        found = []
        for name in slices:
            path = self._by_id[dataset].path(ObjectKind.DATA, name)
            with path.open("rb") as stream:
                if (actual := hash_of_stream(stream)) != name:
                    raise HashMismatch(name, actual)
            found.append(str(path.absolute()))
        return found


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
        found = stored.local_files(ObjectKind.DATA, slices)
        if found is not None:
            return found
        folder = self.copies.absolute() / dataset.multibase
        found = []
        for name in slices:
            path = stored.whole_file(ObjectKind.DATA, name, folder / str(name))
            os.utime(path)  # before the next one is copied: another query may make room meanwhile
            found.append(str(path))
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
