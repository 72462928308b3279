"""One dataset in one folder, in the layout of ODF (see `odf_storage/stores/objects/layout.py`).

The local object store uses it for each of its datasets, and clients use it for a dataset in a
folder on their machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ..ports.errors import ObjectNotFound
from ..ports.values import ObjectKind
from . import files
from .layout import ALIAS, HEAD, KIND_FOLDERS, info_path, object_path, ref_path
from .pending_files import write_hashed


@dataclass(frozen=True, slots=True)
class FolderObject:
    """An object that exists in a folder. `size` is in bytes."""

    kind: ObjectKind
    hash: Multihash
    size: int
    modified: Instant | None = field(default=None, compare=False)


class FolderObjects:
    """The objects and references of one dataset in the folder `root`, created when needed.

    With `durable=False` there are no syncs: files still appear at once and complete, but a power
    cut may undo it.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root
        self._durable = durable

    def path(self, kind: ObjectKind, object_hash: Multihash) -> Path:
        """Return the path of the object, whether or not it exists. `NotAPartOfADataset`."""
        return self.root / object_path(kind, object_hash)

    def stat(self, kind: ObjectKind, object_hash: Multihash) -> FolderObject | None:
        found = files.info_of(self.path(kind, object_hash))
        return None if found is None else _object(kind, object_hash, found)

    def open(self, kind: ObjectKind, object_hash: Multihash, offset: int = 0) -> BinaryIO:
        """Open the object at `offset`; past the end it reads empty. Raises `ObjectNotFound`."""
        try:
            return files.open_at(self.path(kind, object_hash), offset)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFound(kind, object_hash) from None

    def put(
        self, kind: ObjectKind, object_hash: Multihash, chunks: Iterable[bytes]
    ) -> FolderObject:
        """Store chunks under their hash; an existing intact object is renewed. `HashMismatch`."""
        path = self.path(kind, object_hash)
        size = files.put_hashed(path, chunks, object_hash, durable=self._durable)
        return FolderObject(kind, object_hash, size)

    def put_all(self, kind: ObjectKind, contents: Iterable[tuple[Multihash, bytes]]) -> None:
        """As `put` of each, with one sync for all. On `HashMismatch` none of them is visible."""
        folder = f"{self.root}/{KIND_FOLDERS[kind]}"
        wanted = ((f"{folder}/{name}", name, content) for name, content in contents)
        write_hashed(self.root, wanted, durable=self._durable)

    def delete(self, kind: ObjectKind, object_hash: Multihash) -> None:
        self.path(kind, object_hash).unlink(missing_ok=True)

    def list(self) -> Iterator[FolderObject]:
        """Yield all objects: blocks, then data, then checkpoints."""
        for kind, folder in KIND_FOLDERS.items():
            for object_hash, found in files.list_hashed(self.root / folder):
                yield _object(kind, object_hash, found)

    def write_ref(self, ref: str, head: Multihash) -> None:
        files.write_text(self.root / ref_path(ref), str(head), durable=self._durable)

    def read_ref(self, ref: str = HEAD) -> Multihash | None:
        """Return the hash in a reference; None if absent or not the text of a hash."""
        text = files.read_text(self.root / ref_path(ref))
        try:
            return None if text is None else Multihash.parse(text)
        except BadInput:
            return None

    def remove_ref(self, ref: str) -> None:
        files.remove(self.root / ref_path(ref), durable=self._durable)

    def write_alias(self, alias: DatasetAlias) -> None:
        self.write_info(ALIAS, str(alias))

    def read_alias(self) -> DatasetAlias | None:
        """Return the alias stored beside the objects; None if absent or unreadable."""
        text = self.read_info(ALIAS)
        try:
            return None if text is None else DatasetAlias.parse(text)
        except BadInput:
            return None

    def write_info(self, name: str, text: str) -> None:
        files.write_text(self.root / info_path(name), text, durable=self._durable)

    def read_info(self, name: str) -> str | None:
        return files.read_text(self.root / info_path(name))

    def remove(self) -> None:
        """Remove the folder, references first, so that an interrupted removal leaves no dataset."""
        shutil.rmtree(self.root / "refs", ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)


def _object(kind: ObjectKind, object_hash: Multihash, found: files.FileInfo) -> FolderObject:
    return FolderObject(kind, object_hash, found.size, found.modified)
