"""The objects of a dataset, hashed, and the files of its index, opened for a reader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from odf_protocol.multihash import Multihash
from odf_storage.datasets.dataset.dataset import Dataset
from odf_storage.datasets.kartothek.index_place import index_store
from odf_storage.stores.ports.errors import KeyNotFound, KeyRefused
from odf_storage.stores.ports.values import ObjectKind

if TYPE_CHECKING:
    from odf_storage.stores.ports import KeyedStore


class Materials:
    """Opens everything that the readers of one dataset may request."""

    def __init__(self, dataset: Dataset, projections: KeyedStore) -> None:
        self._dataset = dataset
        self.index = index_store(projections, dataset.id)

    def open_whole(self, kind: ObjectKind, name: Multihash) -> BinaryIO:
        """Open an object whose hash was checked. Raises `ObjectDamaged`."""
        return self._dataset.open_whole(kind, name)

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        """Do the same as `Dataset.require`."""
        self._dataset.require(kind, wanted)

    def open_index(self, key: str) -> BinaryIO | None:
        """Open a file of the index; None if it does not exist."""
        try:
            return self.index.open(key)
        except (KeyNotFound, KeyRefused):
            return None
