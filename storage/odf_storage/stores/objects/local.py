"""Object store in a local folder, with one folder per dataset and uploads beside them.

It offers no transfer URLs: bytes go through the node.
"""

from __future__ import annotations

import builtins
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ..ports import LocalPaths, PartialUploads
from ..ports.errors import ObjectNotFound
from ..ports.values import BucketPlace, ObjectInfo, ObjectKey, ObjectKind, TransferUrl
from . import files
from .folder import FolderObjects
from .layout import (
    DATASETS,
    UPLOADS,
    dataset_path,
    parse_folder,
    parse_object_name,
    quarantine_path,
    ref_path,
    store_name,
    uploads_path,
)
from .local_paths import FolderPaths
from .partial import PartialFiles
from .pending_files import write_files, write_hashed


class LocalObjectStore:
    """`ObjectStore` below `root`. Several processes may share the folder.

    `durable=False` leaves out the syncs to disk, for tests.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root
        self._root_text = str(root)
        self._durable = durable
        self.local_paths: LocalPaths | None = FolderPaths(root)
        self.partial: PartialUploads | None = PartialFiles(root, self.path, durable=durable)

    def folder(self, dataset: DatasetId) -> FolderObjects:
        """Return the dataset's folder as a repository by itself."""
        return FolderObjects(self.root / dataset_path(dataset), durable=self._durable)

    def path(self, key: ObjectKey) -> Path:
        """Return the path of the object, whether or not it exists, for readers that need a file."""
        return Path(self._name(key))

    def _name(self, key: ObjectKey) -> str:
        return f"{self._root_text}/{store_name(key)}"

    def stat(self, key: ObjectKey) -> ObjectInfo | None:
        return _object(key, files.info_of(self.path(key)))

    def open(self, key: ObjectKey, *, offset: int = 0) -> BinaryIO:
        try:
            return files.open_at(self._name(key), offset)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise ObjectNotFound(key.kind, key.hash) from None

    def put(self, key: ObjectKey, chunks: Iterable[bytes]) -> ObjectInfo:
        size = files.put_hashed(self.path(key), chunks, key.hash, durable=self._durable)
        return ObjectInfo(key, size)

    def put_blocks(self, dataset: DatasetId, blocks: Iterable[tuple[Multihash, bytes]]) -> None:
        self.folder(dataset).put_all(ObjectKind.BLOCK, blocks)

    def put_all(self, objects: Sequence[tuple[ObjectKey, bytes]]) -> None:
        wanted = ((self._name(key), key.hash, content) for key, content in objects)
        write_hashed(self.root, wanted, durable=self._durable)

    def delete(self, key: ObjectKey) -> None:
        self.path(key).unlink(missing_ok=True)

    def list(self, dataset: DatasetId) -> Iterator[ObjectInfo]:
        for item in self.folder(dataset).list():
            key = ObjectKey(dataset, item.kind, item.hash)
            yield ObjectInfo(key, item.size, item.modified)
        parse = partial(parse_object_name, dataset, ObjectKind.UPLOAD)
        for key, found in files.list_named(self.root / uploads_path(dataset), parse):
            yield ObjectInfo(key, found.size, found.modified)

    def datasets(self) -> Iterator[DatasetId]:
        seen: set[DatasetId] = set()
        for folder in (self.root / DATASETS, self.root / UPLOADS):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                dataset = parse_folder(path.name)
                if dataset is not None and dataset not in seen and path.is_dir():
                    seen.add(dataset)
                    yield dataset

    def renew(self, key: ObjectKey) -> ObjectInfo | None:
        return _object(key, files.renew(self.path(key)))

    def discard(self, key: ObjectKey, *, before: Instant) -> bool:
        return files.discard(self.path(key), before=before)

    def quarantine(self, key: ObjectKey) -> bool:
        aside = self.root / quarantine_path(key)
        files.make_folder(aside.parent, durable=self._durable)
        try:
            self.path(key).replace(aside)
        except FileNotFoundError:
            return False
        return True

    def download_url(self, key: ObjectKey, *, ttl: timedelta) -> TransferUrl | None:  # noqa: ARG002
        return None

    def upload_url(
        self,
        key: ObjectKey,  # noqa: ARG002
        *,
        size: int | None,  # noqa: ARG002
        ttl: timedelta,  # noqa: ARG002
    ) -> TransferUrl | None:
        return None

    def copy_source(self, key: ObjectKey) -> BucketPlace | None:  # noqa: ARG002
        return None

    def settle(self, key: ObjectKey) -> ObjectInfo | None:
        return self.renew(key)

    def write_ref(self, dataset: DatasetId, ref: str, head: Multihash) -> None:
        self.folder(dataset).write_ref(ref, head)

    def write_refs(self, ref: str, heads: Mapping[DatasetId, Multihash]) -> None:
        ref_file = ref_path(ref)
        texts = [
            (f"{self._root_text}/{dataset_path(dataset)}/{ref_file}", str(head).encode())
            for dataset, head in heads.items()
        ]
        write_files(self.root, texts, durable=self._durable)

    def read_ref(self, dataset: DatasetId, ref: str) -> Multihash | None:
        return self.folder(dataset).read_ref(ref)

    def remove_ref(self, dataset: DatasetId, ref: str) -> None:
        self.folder(dataset).remove_ref(ref)

    def write_alias(self, dataset: DatasetId, alias: DatasetAlias) -> None:
        self.folder(dataset).write_alias(alias)

    def read_alias(self, dataset: DatasetId) -> DatasetAlias | None:
        return self.folder(dataset).read_alias()

    def write_info(self, dataset: DatasetId, name: str, text: str) -> None:
        self.folder(dataset).write_info(name, text)

    def read_info(self, dataset: DatasetId, name: str) -> str | None:
        return self.folder(dataset).read_info(name)

    def remove(self, dataset: DatasetId) -> None:
        self.folder(dataset).remove()
        shutil.rmtree(self.root / uploads_path(dataset), ignore_errors=True)

    def close(self) -> None:
        """Do nothing, because no resources are kept between calls."""

    def remove_abandoned(self, *, before: Instant | None = None, dry_run: bool = False) -> int:
        """Remove leftovers of crashed writers, by default older than a day; return their number."""
        folders: builtins.list[Path] = [self.root / DATASETS, self.root / UPLOADS]
        return sum(
            files.remove_abandoned(folder, before=before, dry_run=dry_run)
            for folder in folders
            if folder.is_dir()
        )


def _object(key: ObjectKey, found: files.FileInfo | None) -> ObjectInfo | None:
    return None if found is None else ObjectInfo(key, found.size, found.modified)
