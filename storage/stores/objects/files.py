"""Files that appear all at once: write beside the target, sync, rename, sync the folder.

A crash leaves either nothing or the whole file, and at most a `.pending-…` file that
nobody looks at and `remove_abandoned` collects. The age of a file is its time of
modification; its content never changes, so `renew` may move it.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from odf_node.protocol.errors import Conflict
from odf_node.protocol.instant import NANOS, Instant
from odf_node.protocol.multihash import HashMismatch, Multihash

from ...runtime.logs import line
from .hash_beside import HashBeside
from .layout import MAX_INFO_BYTES, PENDING_PREFIX, parse_name
from .storage_failures import storing

ABANDONED_AFTER_S = 24 * 3600
"""Age at which a `.pending-…` file is taken for the remains of a crash."""
READ_BYTES = 1024 * 1024
SYNC_BYTES = 16 * 1024 * 1024
"""Long files go to the disk while they arrive: a sync of everything at the end would wait."""
_NO_LINKS = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP})
_log = logging.getLogger("odf.integrity")


class FolderRemoved(Conflict):
    """The dataset that something was written for is being removed."""

    def __init__(self) -> None:
        super().__init__("the dataset is being removed; nothing was stored")


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Write files of a folder. Raises `FolderRemoved` when somebody removes it meanwhile."""
    try:
        with storing():
            yield
    except FileNotFoundError as error:
        name, root = str(error.filename), str(folder)
        if not (name.startswith(root) or root.startswith(name)):
            raise
        raise FolderRemoved from error


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A regular file: size in bytes, time of modification."""

    size: int
    modified: Instant


def info_of(path: Path) -> FileInfo | None:
    """Size and age of a regular file; None if there is none."""
    try:
        return _info(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None


def renew(path: Path) -> FileInfo | None:
    """As `info_of`, and the file counts as just written."""
    if info_of(path) is None:
        return None
    try:
        with folder_lock(path.parent), storing():
            os.utime(path)
    except FileNotFoundError:  # removed since
        return None
    return info_of(path)


def discard(path: Path, *, before: Instant) -> bool:
    """Remove a file last modified before then, unless it is renewed meanwhile.

    Nobody renews it between the last look at its age and its removal. It is never out of sight
    in between, so that a crash leaves it where it was or gone.
    """
    found = info_of(path)
    if found is None or found.modified >= before:
        return False
    try:
        with folder_lock(path.parent, alone=True):
            old = path.stat().st_mtime_ns < before.ns
            if old:
                path.unlink()
    except FileNotFoundError:  # somebody else removed it as well
        return False
    return old


@contextmanager
def folder_lock(folder: Path | str, *, alone: bool = False) -> Iterator[None]:
    """Keep files of a folder from being discarded (or, `alone`, from being renewed) meanwhile.

    Among the processes of one machine; it ends with its process. Raises `FileNotFoundError`.
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
    """Open for reading at `offset`; past the end reads empty. Raises `FileNotFoundError`."""
    stream = open(path, "rb")  # noqa: PTH123, SIM115 - a name may come as text: that is quicker
    if offset:
        stream.seek(offset)
    return stream


def put_hashed(path: Path, chunks: Iterable[bytes], expected: Multihash, *, durable: bool) -> int:
    """Write chunks that must hash to `expected`; returns the size in bytes.

    A file that exists already and is whole is only renewed, but the chunks have to hash all the
    same: knowing a hash is not having the content. One that is damaged is replaced.

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
    """Whether there is such a file, with the bytes it is named by. Damage, which is about to be
    written over, is told."""
    try:
        with path.open("rb") as stream:
            actual = Multihash.of_chunks(iter(lambda: stream.read(READ_BYTES), b""))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    if actual != expected:
        _log.error(line("damaged object replaced", object=path))
    return actual == expected


def write_text(path: Path, text: str, *, durable: bool) -> None:
    """Replace a small text file, all at once, without adding a newline."""
    write_chunks(path, (text.encode(),), durable=durable)


def write_chunks(path: Path, chunks: Iterable[bytes], *, durable: bool) -> None:
    """Replace a file, all at once."""
    with _appearing(path, durable=durable) as out:
        for chunk in chunks:
            out.write(chunk)


def remove(path: Path, *, durable: bool) -> None:
    """A file goes; if it is absent, nothing happens."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return
    if durable:
        sync_folder(path.parent)


def link(source: Path, path: Path, *, durable: bool) -> bool:
    """Make `path` a second name of the file `source`, in place of what was there.

    False: the file system has no second names for it; nothing was changed.
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
        pending.unlink(missing_ok=True)  # stays where both were names of one file already
        if durable:
            sync_folder(path.parent)
    return True


def read_text(path: Path) -> str | None:
    """A small text file without surrounding white space; None if there is none."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_INFO_BYTES).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def list_hashed(folder: Path) -> Iterator[tuple[Multihash, FileInfo]]:
    """The objects in a folder, in no order; anything else is skipped. Streams."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            object_hash = parse_name(entry.name)
            found = None if object_hash is None else _info_of_entry(entry)
            if object_hash is not None and found is not None:
                yield object_hash, found


def _info_of_entry(entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        return _info(entry.stat())
    except FileNotFoundError:  # removed, or a link to nothing
        return None


def remove_abandoned(folder: Path, *, before: Instant | None = None, dry_run: bool = False) -> int:
    """Remove `.pending-…` files, and folders of them, not written to since `before`; how many.

    By default those older than a day.
    """
    limit = time.time_ns() - ABANDONED_AFTER_S * NANOS if before is None else before.ns
    removed = 0
    for path in _pending_below(folder):
        try:
            if path.stat().st_mtime_ns < limit:
                removed += 1
                if not dry_run:
                    remove_pending(path)
        except FileNotFoundError:  # its writer was alive after all
            continue
    return removed


def _pending_below(folder: Path) -> Iterator[Path]:
    """Files and folders that are written; `os.walk` passes over those that go meanwhile."""
    for root, folders, names in os.walk(folder):
        for name in (*folders, *names):
            if name.startswith(PENDING_PREFIX):
                yield Path(root, name)


def remove_pending(path: Path) -> None:
    """A pending file or folder goes."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


@contextmanager
def _appearing(
    path: Path, check: Callable[[], None] = lambda: None, *, durable: bool
) -> Iterator[BinaryIO]:
    """A stream whose content becomes `path` when the block ends well, and vanishes otherwise.

    `check` has the last word, once everything is on the disk.
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
    """Create a folder and its parents; with `durable`, so that they survive a power cut."""
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
    """Raises `HashMismatch`."""
    if expected != actual:
        raise HashMismatch(expected, actual)
