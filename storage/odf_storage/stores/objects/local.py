"""Object store in a local folder, with one folder per dataset and uploads beside them.

It offers no transfer URLs: bytes go through the node.

Paths of the objects in a local folder, for readers that need files.

Unfinished uploads of each account: one file per claim, in one folder per account.

    uploads/.begun/<hash of the account>/<dataset>-<kind>-<hash>
                                           the announced size, as text

A claim is valid as long as a part of its upload exists. Claims of uploads that were completed or
removed are deleted when the account claims the next upload. So nobody has to release a claim, and
a crash leaves no claim that is valid.

Uploads that can be interrupted and resumed, in a file beside the path of the object.

A partial upload is a pending file with a fixed name. Like every pending file, readers ignore it,
and it is removed if nothing was added for a long time. Each call hashes the stored bytes again
before it adds more, so that the hash covers exactly what is on the disk.
"""

from __future__ import annotations

import builtins
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

from odf_protocol.identity import DatasetAlias, DatasetId
from odf_protocol.instant import Instant
from odf_protocol.multihash import SHA3_256, HashMismatch, Multihash

from ..ports import LocalPaths, PartialUploads
from ..ports.errors import ObjectNotFound, offset_mismatch, upload_busy
from ..ports.values import AccountId, BucketPlace, ObjectInfo, ObjectKey, ObjectKind, TransferUrl
from . import files
from .layout import (
    BEGUN,
    DATASETS,
    KIND_FOLDERS,
    PENDING_PREFIX,
    UPLOADS,
    dataset_folder,
    dataset_path,
    parse_folder,
    parse_name,
    parse_object_name,
    quarantine_path,
    ref_path,
    store_name,
    uploads_path,
)
from .pending_files import FolderObjects, write_files, write_hashed


@dataclass(frozen=True, slots=True)
class FolderPaths:
    """`LocalPaths` below `root`."""

    root: Path

    def path(self, key: ObjectKey) -> Path:
        return Path(f"{self.root}/{store_name(key)}")

    def folder(self, dataset: DatasetId, kind: ObjectKind) -> Path:
        return self.root / dataset_path(dataset) / KIND_FOLDERS[kind]


Judge = Callable[[int, int], None]
"""Gets the number and total bytes of the account's other claims; raises to refuse a new one."""
_KINDS = {folder: kind for kind, folder in KIND_FOLDERS.items()}


class Claims:
    """Claims below the store `root`; `partial_of` returns the path of an upload's partial file."""

    def __init__(self, root: Path, partial_of: Callable[[ObjectKey], Path]) -> None:
        self._root, self._partial_of = root / UPLOADS / BEGUN, partial_of

    def claim(self, account: AccountId, key: ObjectKey, total: int, judge: Judge) -> None:
        """Claim an upload of `total` bytes and begin it; claiming it again does nothing.

        Claims of one account are serialized. If `judge` raises, nothing is claimed.
        """
        own = self._root / str(Multihash.of(account.encode())) / _name(key)
        partial = self._partial_of(key)
        if _bytes_of(own) == total and partial.exists():
            return
        files.make_folder(own.parent, durable=False)
        with files.writing_to(own.parent), files.folder_lock(own.parent, alone=True):
            others = [size for path, size in self._alive(own.parent) if path != own]
            judge(len(others), sum(others))
            _begin(partial)
            files.write_text(own, str(total), durable=False)

    def _alive(self, folder: Path) -> Iterator[tuple[Path, int]]:
        """Yield the valid claims and their bytes; delete the others."""
        for path in [Path(entry.path) for entry in os.scandir(folder)]:
            key = _key(path.name)
            if key is None or not self._partial_of(key).exists():
                path.unlink(missing_ok=True)
            else:
                yield path, _bytes_of(path) or 0


def _begin(partial: Path) -> None:
    """Create the partial file, which makes the claim valid."""
    files.make_folder(partial.parent, durable=False)
    with files.writing_to(partial.parent):
        partial.open("ab").close()


def _name(key: ObjectKey) -> str:
    return f"{dataset_folder(key.dataset)}-{KIND_FOLDERS[key.kind]}-{key.hash}"


def _key(name: str) -> ObjectKey | None:
    folder, _, rest = name.partition("-")
    kind, _, text = rest.partition("-")
    dataset = parse_folder(folder)
    object_hash = parse_name(text)
    if dataset is None or kind not in _KINDS or object_hash is None:
        return None
    return ObjectKey(dataset, _KINDS[kind], object_hash)


def _bytes_of(path: Path) -> int | None:
    text = files.read_text(path)
    return int(text) if text is not None and text.isdigit() else None


READ_BYTES = 1024 * 1024
_UPLOADS = f"{PENDING_PREFIX}upload-"


class PartialFiles:
    """`PartialUploads` below the store `root`; `path_of` returns the path of an object."""

    def __init__(self, root: Path, path_of: Callable[[ObjectKey], Path], *, durable: bool) -> None:
        self._path_of, self._durable = path_of, durable
        self._claims = Claims(root, lambda key: _partial(path_of(key), key))

    def received(self, key: ObjectKey) -> int:
        found = files.info_of(_partial(self._path_of(key), key))
        return 0 if found is None else found.size

    def begun(self, key: ObjectKey) -> int:
        try:
            with os.scandir(self._path_of(key).parent) as found:
                return sum(entry.name.startswith(_UPLOADS) for entry in found)
        except FileNotFoundError:
            return 0

    def claim(self, account: AccountId, key: ObjectKey, total: int, judge: Judge) -> None:
        self._claims.claim(account, key, total, judge)

    def append(self, key: ObjectKey, offset: int, chunks: Iterable[bytes], *, total: int) -> int:
        path = self._path_of(key)
        files.make_folder(path.parent, durable=self._durable)
        partial = _partial(path, key)
        with files.writing_to(path.parent), _locked(partial) as out:
            size = os.fstat(out.fileno()).st_size
            if size != offset:
                raise offset_mismatch(offset, size)
            digest = _hashed(out)
            for chunk in chunks:
                digest.update(chunk)
                size += out.write(chunk)
            if size < total:
                return size
            self._finish(partial, path, key, out, Multihash(SHA3_256, digest.digest()))
            return size

    def _finish(
        self, partial: Path, path: Path, key: ObjectKey, out: BinaryIO, actual: Multihash
    ) -> None:
        if actual != key.hash:
            partial.unlink()
            raise HashMismatch(key.hash, actual)
        out.flush()
        if self._durable:
            os.fsync(out.fileno())
        os.utime(partial)  # as young as an object that was just put
        partial.replace(path)
        if self._durable:
            files.sync_folder(path.parent)


def _partial(path: Path, key: ObjectKey) -> Path:
    return path.with_name(f"{_UPLOADS}{key.hash}")


def _hashed(stream: BinaryIO) -> hashlib._Hash:
    """Hash everything in the file, and leave the stream at its end for the next write."""
    digest = hashlib.sha3_256()
    stream.seek(0)
    while chunk := stream.read(READ_BYTES):
        digest.update(chunk)
    return digest


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open the file under an exclusive lock. Bytes that were written remain after any error."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "r+b") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise upload_busy() from None
            if os.fstat(stream.fileno()).st_nlink == 0 or not _is(path, stream):
                continue  # completed or removed since it was opened
            yield stream
            return


def _is(path: Path, stream: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False


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
