"""Writes many small files, which appear only when all of them are on the disk.

Each file is written beside its target under a pending name. When all are on the disk, they are
renamed in the given order, and then the renames are synced. So a crash leaves either nothing or
the whole of each file. One sync before and one after the renames serve all files, because an
`fsync` of each file would take minutes for a chain of ten thousand blocks.

One dataset in one folder, in the layout of ODF (see `odf_storage/stores/objects/layout.py`).

The local object store uses it for each of its datasets, and clients use it for a dataset in a
folder on their machine.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from odf_protocol.errors import BadInput
from odf_protocol.identity import DatasetAlias
from odf_protocol.instant import Instant
from odf_protocol.multihash import Multihash

from ..ports.errors import ObjectNotFound
from ..ports.values import ObjectKind
from . import files
from .layout import ALIAS, HEAD, KIND_FOLDERS, PENDING_PREFIX, info_path, object_path, ref_path

FEW = 16
"""Up to this number of files and folders is synced one by one, which spares other writers."""

NamedContent = tuple[str, bytes]
"""The path of a file, and its content."""


def write_files(root: Path, wanted: Iterable[NamedContent], *, durable: bool) -> None:
    """Write files below `root`, replacing files that exist.

    `durable=False` leaves out the syncs. If `wanted` raises, the call fails before the first file
    appears.

    Raises:
        StorageFull, StorageReadOnly, FolderRemoved, OSError: some whole files may have appeared.
    """
    waiting = iter(wanted)
    first = list(islice(waiting, FEW + 1))
    each = durable and len(first) + len({_folder(path) for path, _ in first}) <= FEW
    with files.writing_to(root), ExitStack() as open_folders:
        batch = _Pending(open_folders, durable=durable, each=each)
        try:
            for path, content in chain(first, waiting):
                batch.write(path, content)
            batch.sync_contents()
            batch.rename()
        except BaseException:
            batch.remove()
            raise
        batch.sync_names()


def write_hashed(
    root: Path, wanted: Iterable[tuple[str, Multihash, bytes]], *, durable: bool
) -> None:
    """As `write_files`, for contents named by their hashes. An existing intact file is renewed
    instead; a damaged one is replaced.

    Raises:
        HashMismatch: a content does not match its hash; no file appeared.
    """
    write_files(root, _absent(wanted), durable=durable)


def _absent(wanted: Iterable[tuple[str, Multihash, bytes]]) -> Iterator[NamedContent]:
    for path, name, content in wanted:
        files.check(name, Multihash.of(content))
        # usually the file does not exist, and creating a Path costs more than the check
        if os.path.exists(path):  # noqa: PTH110
            there = Path(path)
            if files.holds(there, name) and files.renew(there) is not None:
                continue
        yield path, content


class _Pending:
    """Files under pending names, and the file systems that contain them.

    With `each`, files and folders are synced one by one; otherwise whole file systems are synced.
    """

    def __init__(self, open_folders: ExitStack, *, durable: bool, each: bool) -> None:
        self._open_folders, self._durable, self._each = open_folders, durable, each
        self._token = secrets.token_hex(8)
        self._targets: list[str] = []
        self._folders: set[str] = set()
        self._systems: dict[int, tuple[int, str]] = {}
        """By device: the handle of an open folder on it, and the folder's name."""

    def write(self, path: str, content: bytes) -> None:
        self._prepare(_folder(path))
        self._targets.append(path)
        write_file(self._name(len(self._targets) - 1), content, sync=self._each)

    def sync_contents(self) -> None:
        """Sync the written files to the disk, unless each was synced when written."""
        for handle, name in self._systems.values():
            sync_file_system(handle, name)

    def rename(self) -> None:
        for number, target in enumerate(self._targets):
            os.rename(self._name(number), target)  # noqa: PTH104 - a Path costs more than the call

    def sync_names(self) -> None:
        """Sync the renames to the disk. A single folder is synced by itself, because a `syncfs`
        would also wait for the data of other writers."""
        if self._durable and (self._each or len(self._folders) == 1):
            for folder in sorted(self._folders):
                files.sync_folder(Path(folder))
        else:
            self.sync_contents()

    def remove(self) -> None:
        for number in range(len(self._targets)):
            with suppress(OSError):
                Path(self._name(number)).unlink(missing_ok=True)

    def _name(self, number: int) -> str:
        return f"{_folder(self._targets[number])}/{PENDING_PREFIX}{self._token}-{number}"

    def _prepare(self, folder: str) -> None:
        """Create the folder if it is absent. Open the first folder of each file system before any
        file is written there, because a sync through that handle reports every later error."""
        if folder in self._folders:
            return
        if not os.path.isdir(folder):  # noqa: PTH112 - a Path costs more than the check
            files.make_folder(Path(folder), durable=self._durable)
        self._folders.add(folder)
        if not self._durable or self._each:
            return
        device = os.stat(folder).st_dev  # noqa: PTH116 - a Path costs more than the call
        if device not in self._systems:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._open_folders.callback(os.close, handle)
            self._systems[device] = handle, folder


def write_file(path: str, content: bytes, *, sync: bool) -> None:
    """Create a new file with the content. Raises `OSError`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        written = os.write(handle, content)
        while written < len(content):
            written += os.write(handle, content[written:])
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_file_system(handle: int, name: str) -> None:
    """Sync everything written so far to the file system of an open folder."""
    if _LIBC is None or not hasattr(_LIBC, "syncfs"):
        os.sync()
    elif _LIBC.syncfs(handle) != 0:
        raise OSError(ctypes.get_errno(), f"cannot sync the file system of {name}")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # this system has no such library
        return None


_LIBC = _libc()


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
