"""Many small files that appear only once all of them are on the disk: one way to write them.

Each is written beside its target under a pending name. Once all are on the disk each is renamed,
in the order given, and once the renames are on the disk all is done: a crash leaves of a file
nothing or the whole. Many files share one sync before and one after the renames: an `fsync` of
each would take minutes for a chain of ten thousand blocks.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from itertools import chain, islice
from pathlib import Path

from odf_node.protocol.multihash import Multihash

from . import files
from .layout import PENDING_PREFIX

FEW = 16
"""Up to so many syncs are done one by one: that leaves the rest of the disk alone."""

NamedContent = tuple[str, bytes]
"""The path of a file, and what it is to hold."""


def write_files(root: Path, wanted: Iterable[NamedContent], *, durable: bool) -> None:
    """Write files below `root`; what is there by one of the names is replaced.

    `durable=False` leaves out the syncs. What `wanted` raises ends it before the first file
    appears.

    Raises:
        StorageFull, StorageReadOnly, FolderRemoved, OSError: some may have appeared, whole.
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
    """As `write_files` of contents named by their hashes. A file that is there and whole is
    renewed instead; a damaged one is replaced.

    Raises:
        HashMismatch: a content is not what its hash says; no file appeared.
    """
    write_files(root, _absent(wanted), durable=durable)


def _absent(wanted: Iterable[tuple[str, Multihash, bytes]]) -> Iterator[NamedContent]:
    for path, name, content in wanted:
        files.check(name, Multihash.of(content))
        # mostly there is no such file, and a Path costs more than the look
        if os.path.exists(path):  # noqa: PTH110
            there = Path(path)
            if files.holds(there, name) and files.renew(there) is not None:
                continue
        yield path, content


class _Pending:
    """Files under pending names, and the file systems they are on.

    `each` syncs file by file and folder by folder; otherwise file systems are synced as a whole.
    """

    def __init__(self, open_folders: ExitStack, *, durable: bool, each: bool) -> None:
        self._open_folders, self._durable, self._each = open_folders, durable, each
        self._token = secrets.token_hex(8)
        self._targets: list[str] = []
        self._folders: set[str] = set()
        self._systems: dict[int, tuple[int, str]] = {}
        """By device: an open folder on it, and the folder's name."""

    def write(self, path: str, content: bytes) -> None:
        self._prepare(_folder(path))
        self._targets.append(path)
        write_file(self._name(len(self._targets) - 1), content, sync=self._each)

    def sync_contents(self) -> None:
        """What was written reaches the disk, unless each file did."""
        for handle, name in self._systems.values():
            sync_file_system(handle, name)

    def rename(self) -> None:
        for number, target in enumerate(self._targets):
            os.rename(self._name(number), target)  # noqa: PTH104 - a Path costs more than the rename

    def sync_names(self) -> None:
        """The renames reach the disk. One folder is synced by itself: a `syncfs` would wait for
        all that others have written meanwhile."""
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
        """Make the folder if it is absent, and open the first of each file system before a file
        is written there: a sync through the handle is told of every error since then."""
        if folder in self._folders:
            return
        files.make_folder(Path(folder), durable=self._durable)
        self._folders.add(folder)
        if not self._durable or self._each:
            return
        device = os.stat(folder).st_dev  # noqa: PTH116 - a Path costs more than the look
        if device not in self._systems:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._open_folders.callback(os.close, handle)
            self._systems[device] = handle, folder


def write_file(path: str, content: bytes, *, sync: bool) -> None:
    """A new file with the content. Raises `OSError`."""
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
    """Everything written so far to the file system of an open folder reaches the disk."""
    if _LIBC is None or not hasattr(_LIBC, "syncfs"):
        os.sync()
    elif _LIBC.syncfs(handle) != 0:
        raise OSError(ctypes.get_errno(), f"cannot sync the file system of {name}")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # no such thing on this system
        return None


_LIBC = _libc()
