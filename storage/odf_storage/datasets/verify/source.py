"""Sources of a dataset to verify or read: the store of this node, a folder, or another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

from odf_protocol.codec.blocks import MAX_BLOCK_BYTES
from odf_protocol.multihash import Multihash

from ...stores.objects.layout import HEAD
from ...stores.objects.pending_files import FolderObjects
from ...stores.ports.errors import ref_not_found
from ...stores.ports.values import ObjectKind

if TYPE_CHECKING:
    from ..dataset.dataset import Dataset


class ObjectSource(Protocol):
    """Objects of a dataset. Raises `NotFound` for a missing one. Called from several threads."""

    def open_object(self, kind: ObjectKind, object_hash: Multihash, /) -> BinaryIO: ...


class ChainSource(ObjectSource, Protocol):
    """A dataset to verify or read, from any source. Raises `NotFound` for missing parts."""

    def head(self) -> Multihash: ...
    def block_bytes(self, block: Multihash, /) -> bytes: ...


@runtime_checkable
class HashingSource(Protocol):
    """A source that verifies the hash of objects when it opens them, and can check beforehand
    that objects exist."""

    def open_whole(self, kind: ObjectKind, object_hash: Multihash, /) -> BinaryIO: ...
    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]], /) -> None: ...


@runtime_checkable
class AheadSource(Protocol):
    """A source that opens the next objects while the caller reads one, as `open_whole` does."""

    def open_each(
        self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]], /
    ) -> Iterator[BinaryIO]: ...


class DatasetSource:
    """A dataset of this node: head of the index, blocks and objects of the object store."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def head(self) -> Multihash:
        return self._dataset.head()

    def block_bytes(self, block: Multihash) -> bytes:
        with self.open_object(ObjectKind.BLOCK, block) as stream:
            return stream.read(MAX_BLOCK_BYTES)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._dataset.open_object(kind, object_hash)

    def open_whole(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        """Open an object to compute with, its hash verified; `open_object` is for checks, which
        hash it themselves. Raise `ObjectDamaged`."""
        return self._dataset.open_whole(kind, object_hash)

    def require(self, kind: ObjectKind, wanted: Iterable[tuple[Multihash, int]]) -> None:
        """As `Dataset.require`."""
        self._dataset.require(kind, wanted)


class FolderSource:
    """A dataset in a folder."""

    def __init__(self, folder: FolderObjects) -> None:
        self._folder = folder

    def head(self) -> Multihash:
        """Return the head. Raise `RefNotFound` if the folder has no dataset."""
        head = self._folder.read_ref(HEAD)
        if head is None:
            raise ref_not_found(HEAD)
        return head

    def block_bytes(self, block: Multihash) -> bytes:
        with self._folder.open(ObjectKind.BLOCK, block) as stream:
            return stream.read(MAX_BLOCK_BYTES)

    def open_object(self, kind: ObjectKind, object_hash: Multihash) -> BinaryIO:
        return self._folder.open(kind, object_hash)
