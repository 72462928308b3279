"""Many small files at once, with the promises of `files.put_hashed` and one sync for all.

A chain of a hundred thousand blocks is as many files; syncing each by itself would take
minutes. So all are written under pending names, synced together, and only then renamed.
"""

from __future__ import annotations

import ctypes
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

from protocol.multihash import HashMismatch, Multihash

from ..layout import PENDING_PREFIX
from . import files

FEW = 16
"""Up to so many files are synced one by one: that leaves the rest of the disk alone."""
BATCH = 20_000
"""Files that wait for one sync."""
MANY = 1000
"""From so many files on, several threads write them."""
WRITERS = 2

Content = tuple[Multihash, bytes]
File = tuple[str, str, bytes]
"""Pending name, name, content."""


def put_all(folder: Path, contents: Iterable[Content], *, durable: bool) -> None:
    """Store each content in `folder` under its hash; known ones are only renewed.

    Raises:
        HashMismatch: other content; those before it may be visible already, it is not.
    """
    waiting = iter(contents)
    with files.writing_to(folder):
        files.make_folder(folder, durable=durable)
        while batch := list(islice(waiting, BATCH)):
            _put_batch(str(folder), batch, durable=durable)


def _put_batch(folder: str, batch: list[Content], *, durable: bool) -> None:
    new = list(_new(folder, batch))
    few = len(batch) <= FEW

    def write(part: list[File]) -> None:
        for pending, _, content in part:
            _write(pending, content, sync=durable and few)

    try:
        _in_parts(write, new)
        if durable and new and not few:
            _sync_file_system(folder)
        _in_parts(_rename, new)
    except BaseException:
        for pending, _, _ in new:
            with suppress(OSError):
                Path(pending).unlink(missing_ok=True)
        raise
    if durable and new:
        files.sync_folder(Path(folder))


def _rename(part: list[File]) -> None:
    for pending, target, _ in part:
        os.rename(pending, target)  # noqa: PTH104 - a Path costs more than the rename


def _in_parts(work: Callable[[list[File]], None], new: list[File]) -> None:
    """By several threads if there is much to do: most of it is spent in the kernel."""
    if len(new) < MANY:
        work(new)
        return
    with ThreadPoolExecutor(WRITERS) as pool:
        parts = [pool.submit(work, new[first::WRITERS]) for first in range(WRITERS)]
    for part in parts:
        part.result()


def _new(folder: str, batch: list[Content]) -> Iterator[File]:
    """Pending name, name and content of what is not there yet."""
    token = secrets.token_hex(8)
    known = set(os.listdir(folder)) if len(batch) > FEW else None  # noqa: PTH208 - plain names
    for number, (name, content) in enumerate(batch):
        actual = Multihash.of(content)
        if actual != name:
            raise HashMismatch(name, actual)
        text = str(name)
        target = f"{folder}/{text}"
        if (known is not None and text not in known) or not _renew(folder, target):
            yield f"{folder}/{PENDING_PREFIX}{token}-{number}", target, content


def _renew(folder: str, path: str) -> bool:
    """Whether the file is there; it counts as just written then."""
    try:
        with files.folder_lock(folder):
            os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _write(path: str, content: bytes, *, sync: bool) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(handle, left) :]
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file_system(folder: str) -> None:
    """Everything written to the file system of `folder` so far reaches the disk."""
    if _LIBC is None or not hasattr(_LIBC, "syncfs"):
        os.sync()
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _LIBC.syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), f"cannot sync the file system of {folder}")
    finally:
        os.close(handle)


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # no such thing on this system
        return None


_LIBC = _libc()
