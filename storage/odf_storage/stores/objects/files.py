"""Files that appear at once: write beside the target, sync, rename, sync the folder.

A crash leaves either nothing or the whole file, and at most a `.pending-…` file, which all readers
ignore and `remove_abandoned` removes. The age of a file is its modification time. `renew` may
change that time because the content of a file never changes.

Hashes content in parallel with writing it, so that SHA3 and the disk work at the same time.

Short content is hashed in the caller's thread; long content by a second thread, which may lag a
few pieces behind. Hashing and writing both release the interpreter lock.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from stat import S_ISREG
from typing import BinaryIO, TypeVar

from odf_protocol.errors import Conflict
from odf_protocol.instant import NANOS, Instant
from odf_protocol.multihash import SHA3_256, HashMismatch, Multihash

from ...runtime.logs import line
from .layout import MAX_INFO_BYTES, PENDING_PREFIX, parse_name, storing

SHORT_BYTES = 128 * 1024
"""Content up to this size is hashed without a thread; longer content while the disk syncs."""
PIECES_BEHIND = 8
"""Number of pieces that hashing may lag behind, which are kept in memory."""


class HashBeside:
    """Computes the SHA3-256 of successive pieces; must be closed."""

    def __init__(self) -> None:
        self._state, self._size = hashlib.sha3_256(), 0
        self._pieces: SimpleQueue[bytes | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def update(self, piece: bytes) -> None:
        """Add a piece, which must not change afterwards."""
        self._size += len(piece)
        if self._thread is not None:
            self._room.get()
            self._pieces.put(piece)
        elif self._size <= SHORT_BYTES:
            self._state.update(piece)
        else:
            self._thread = threading.Thread(target=self._work, name="hash-beside", daemon=True)
            self._thread.start()
            self._pieces.put(piece)
            for _ in range(PIECES_BEHIND - 1):
                self._room.put(None)

    def result(self) -> Multihash:
        """Wait for the remaining pieces and return the hash. No piece can be added afterwards."""
        self.close()
        return Multihash(SHA3_256, self._state.digest())

    def close(self) -> None:
        """End the thread after it has hashed all its pieces."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._pieces.put(None)
            thread.join()

    def _work(self) -> None:
        while (piece := self._pieces.get()) is not None:
            self._state.update(piece)
            self._room.put(None)


ABANDONED_AFTER_S = 24 * 3600
"""Age in seconds at which a `.pending-…` file is considered a leftover of a crash."""
READ_BYTES = 1024 * 1024
SYNC_BYTES = 16 * 1024 * 1024
"""Bytes after which a long file is synced while it is written, so that the last sync is short."""
_NO_LINKS = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP})
_log = logging.getLogger("odf.integrity")
T = TypeVar("T")


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Guard writes to a folder. Raise `FolderRemoved` if the folder is removed meanwhile."""
    try:
        with storing():
            yield
    except FileNotFoundError as error:
        name, root = str(error.filename), str(folder)
        if not (name.startswith(root) or root.startswith(name)):
            raise
        raise Conflict(
            "FolderRemoved", "the dataset is being removed; nothing was stored"
        ) from error


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A regular file: size in bytes and modification time."""

    size: int
    modified: Instant


def info_of(path: Path) -> FileInfo | None:
    """Return size and age of a regular file; None if there is none."""
    try:
        return _info(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None


def renew(path: Path) -> FileInfo | None:
    """As `info_of`, and reset the age of the file."""
    if info_of(path) is None:
        return None
    try:
        with folder_lock(path.parent), storing():
            os.utime(path)
    except FileNotFoundError:  # removed meanwhile
        return None
    return info_of(path)


def discard(path: Path, *, before: Instant) -> bool:
    """Remove a file last modified before that time, unless it is renewed meanwhile.

    A lock prevents renewals between the last check of its age and its removal. The file is not
    moved in between, so a crash leaves it at its path or removed.
    """
    found = info_of(path)
    if found is None or found.modified >= before:
        return False
    try:
        with folder_lock(path.parent, alone=True):
            old = path.stat().st_mtime_ns < before.ns
            if old:
                path.unlink()
    except FileNotFoundError:  # another process removed it as well
        return False
    return old


@contextmanager
def folder_lock(folder: Path | str, *, alone: bool = False) -> Iterator[None]:
    """Prevent files of a folder from being discarded (with `alone`, also from being renewed).

    The lock works among the processes of one machine and ends with its process. Raises
    `FileNotFoundError`.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _info(stat: os.stat_result) -> FileInfo | None:
    if not S_ISREG(stat.st_mode):
        return None
    return FileInfo(stat.st_size, Instant(stat.st_mtime_ns))


def open_at(path: Path | str, offset: int) -> BinaryIO:
    """Open for reading at `offset`; past the end it reads empty. Raises `FileNotFoundError`."""
    stream = open(path, "rb")  # noqa: PTH123, SIM115 - a path given as text is faster
    if offset:
        stream.seek(offset)
    return stream


def put_hashed(path: Path, chunks: Iterable[bytes], expected: Multihash, *, durable: bool) -> int:
    """Write chunks that must hash to `expected`; return the size in bytes.

    If an intact file exists, it is only renewed; the chunks must hash to `expected` nevertheless,
    because knowing a hash does not prove having the content. A damaged file is replaced.

    Raises:
        HashMismatch: the chunks are other content; nothing became visible.
    """
    if holds(path, expected) and (known := renew(path)) is not None:
        check(expected, Multihash.of_chunks(chunks))
        return known.size
    size, synced = 0, 0
    with (
        closing(HashBeside()) as hashed,
        _appearing(path, lambda: check(expected, hashed.result()), durable=durable) as out,
    ):
        for chunk in chunks:
            hashed.update(chunk)
            size += out.write(chunk)
            if durable and size - synced >= SYNC_BYTES:
                out.flush()
                os.fdatasync(out.fileno())
                synced = size
    return size


def holds(path: Path, expected: Multihash) -> bool:
    """Return whether the file exists and its bytes match its hash. Log damage, because the caller
    is about to overwrite the file."""
    try:
        with path.open("rb") as stream:
            actual = Multihash.of_chunks(iter(lambda: stream.read(READ_BYTES), b""))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    if actual != expected:
        _log.error(line("damaged object replaced", object=path))
    return actual == expected


def write_text(path: Path, text: str, *, durable: bool) -> None:
    """Replace a small text file atomically, without adding a newline."""
    write_chunks(path, (text.encode(),), durable=durable)


def write_chunks(path: Path, chunks: Iterable[bytes], *, durable: bool) -> None:
    """Replace a file atomically."""
    with _appearing(path, durable=durable) as out:
        for chunk in chunks:
            out.write(chunk)


def remove(path: Path, *, durable: bool) -> None:
    """Remove a file; if it is absent, do nothing."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return
    if durable:
        sync_folder(path.parent)


def link(source: Path, path: Path, *, durable: bool) -> bool:
    """Make `path` a hard link to the file `source`, replacing any file there.

    Return False, without any change, if the file system cannot link the two.
    """
    make_folder(path.parent, durable=durable)
    pending = path.parent / f"{PENDING_PREFIX}{secrets.token_hex(8)}"
    with storing():
        try:
            os.link(source, pending)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        pending.replace(path)
        pending.unlink(missing_ok=True)  # a rename between links to one file leaves both
        if durable:
            sync_folder(path.parent)
    return True


def read_text(path: Path) -> str | None:
    """Return a small text file without surrounding white space; None if there is none."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_INFO_BYTES).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def list_hashed(folder: Path) -> Iterator[tuple[Multihash, FileInfo]]:
    """Yield the files that are named by a hash, as `list_named` does."""
    return list_named(folder, parse_name)


def list_named(folder: Path, parse: Callable[[str], T | None]) -> Iterator[tuple[T, FileInfo]]:
    """Yield the files whose names `parse` understands, and what it makes of them, in no order and
    without reading all names; skip other files."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            parsed = parse(entry.name)
            found = None if parsed is None else _info_of_entry(entry)
            if parsed is not None and found is not None:
                yield parsed, found


def _info_of_entry(entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        return _info(entry.stat())
    except FileNotFoundError:  # removed, or a dangling link
        return None


def remove_abandoned(folder: Path, *, before: Instant | None = None, dry_run: bool = False) -> int:
    """Remove `.pending-…` files and folders last modified before `before`; return their number.

    The default for `before` is a day ago.
    """
    limit = time.time_ns() - ABANDONED_AFTER_S * NANOS if before is None else before.ns
    removed = 0
    for path in _pending_below(folder):
        try:
            if path.stat().st_mtime_ns < limit:
                removed += 1
                if not dry_run:
                    remove_pending(path)
        except FileNotFoundError:  # its writer has just completed it
            continue
    return removed


def _pending_below(folder: Path) -> Iterator[Path]:
    """Yield pending files and folders; `os.walk` skips entries that vanish meanwhile."""
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            if name.startswith(PENDING_PREFIX):
                yield Path(root, name)


def remove_pending(path: Path) -> None:
    """Remove a pending file or folder."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


@contextmanager
def _appearing(
    path: Path, check: Callable[[], None] = lambda: None, *, durable: bool
) -> Iterator[BinaryIO]:
    """Yield a stream whose content becomes `path` if the block succeeds, and is deleted otherwise.

    `check` runs last, when everything is on the disk, and may raise.
    """
    with writing_to(path.parent):
        with _pending(path, check, durable=durable) as out:
            yield out
        if durable:
            sync_folder(path.parent)


@contextmanager
def _pending(path: Path, check: Callable[[], None], *, durable: bool) -> Iterator[BinaryIO]:
    make_folder(path.parent, durable=durable)
    pending = path.parent / f"{PENDING_PREFIX}{secrets.token_hex(8)}"
    try:
        with pending.open("xb") as out:
            yield out
            out.flush()
            if durable:
                os.fsync(out.fileno())
        check()
        pending.replace(path)
    except BaseException:
        with suppress(OSError):
            pending.unlink(missing_ok=True)
        raise


def make_folder(folder: Path, *, durable: bool) -> None:
    """Create a folder and its parents; with `durable`, they survive a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent, durable=durable)
    folder.mkdir(exist_ok=True)
    if durable:
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check(expected: Multihash, actual: Multihash) -> None:
    """Raise `HashMismatch` if the hashes differ."""
    if expected != actual:
        raise HashMismatch(expected, actual)
