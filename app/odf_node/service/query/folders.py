"""Datasets in local folders as inputs of queries: named tables, each file hashed before use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from anyio import to_thread

from odf_protocol.errors import BadInput, NotFound
from odf_protocol.identity import DatasetId
from odf_protocol.multihash import HashMismatch, Multihash
from odf_storage.datasets.integrity.hashing import hash_of_stream
from odf_storage.datasets.read.read import scanning
from odf_storage.datasets.read.rows import takes_back
from odf_storage.datasets.read.view import Outline, outline_of_source
from odf_storage.datasets.verify.source import FolderSource
from odf_storage.stores.objects.folder import FolderObjects
from odf_storage.stores.ports.values import ObjectKind

from ..auth.actors import Actor
from .inputs import DatasetPin, Source, views_by_alias


class PinsOfFolders(BadInput):
    """The query has pins, but pins name datasets of a node, not folders."""


class NoDataset(NotFound):
    """The chain in a folder does not begin with a Seed."""


class FolderInputs:
    """Folders by their table names in lower case, as of their heads or of one block."""

    def __init__(self, folders: Mapping[str, FolderObjects], at: Multihash | None = None) -> None:
        self._folders, self._at = folders, at
        self._by_id: dict[DatasetId, FolderObjects] = {}

    def sources(self, _actor: Actor, query: str, pins: Sequence[DatasetPin]) -> list[Source]:
        """Return the folders that the query names.

        Raises `PinsOfFolders`, and the errors of reading a chain.
        """
        if pins:
            raise PinsOfFolders("folders have no pins; ask as of a block instead")
        found = []
        for alias, views in views_by_alias(query).items():
            if (folder := self._folders.get(alias.lower())) is not None:
                dataset, outline = self._looked_at(folder)
                found.append(
                    Source(alias=alias, views=frozenset(views), id=dataset, outline=outline)
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
            raise NoDataset(f"{folder.root} holds no dataset")
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
