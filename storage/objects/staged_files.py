"""Many small files written where nobody looks, synced together, and only then made visible.

A chain of a hundred thousand blocks is as many files; syncing each by itself would take
minutes. So all are written into a pending folder and synced by one `syncfs`; then the folder is
renamed, if it is the first of its kind, or each file is. They may be written long before it is
known whether they are wanted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from ..layout import PENDING_PREFIX, parse_name
from . import file_writer, files
from .file_writer import END, HEAD, OUTCOME, write_file

WORTH_AHEAD = 1000
"""Up to so many files are better written when they are wanted."""
MANY = 2000
"""From so many files on, another process writes them."""
BATCH = 20_000
"""Files after which the disk begins to take them in, beside the writing of more."""
_OCCUPIED = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})


class StagedFiles:
    """Files in a pending folder of `place`; closing removes what was not published.

    `durable=False` leaves out the syncs. Up to `few` files are not worth it: nothing is written
    then, and `publish` says so. Not for several threads at once.
    """

    def __init__(self, place: Path, *, durable: bool, few: int = 0) -> None:
        self._place, self._durable, self._few = place, durable, few
        self._held: list[tuple[str, bytes]] = []
        self._pending = place / f"{PENDING_PREFIX}{secrets.token_hex(8)}"
        self._folder: int | None = None
        self._writer: _Writer | None = None
        self._told = self._written = 0
        self._lost = False
        self._flusher: ThreadPoolExecutor | None = None
        self._flushed: list[Future[None]] = []

    def add(self, name: str, content: bytes) -> None:
        """Write a file, sooner or later; one that was added before is left alone.

        Raises:
            StorageFull, StorageReadOnly, FolderRemoved, OSError: of this file or an earlier one.
        """
        if self._lost:
            return
        if self._told == 0 and len(self._held) < self._few:
            self._held.append((name, content))
            return
        try:
            for held in self._held:
                self._add(*held)
            self._held.clear()
            self._add(name, content)
        except FileNotFoundError:
            self._lost = True  # what is written from now on goes nowhere
        except OSError:
            with files.writing_to(self._place):
                raise

    def publish(self, folder: Path) -> bool:
        """All files become files of `folder`, durably; those that are there are only renewed.

        False: that is left to the caller. There were few of them, or somebody removed the
        pending files as abandoned.

        Raises:
            StorageFull, StorageReadOnly, FolderRemoved, OSError: nothing became visible, unless
            it is told by the last sync or by the removal of the folder meanwhile.
        """
        with files.writing_to(folder):
            self._end()
            if self._lost or self._held:
                return False
            if self._folder is None:
                return True
            if self._durable:
                sync_file_system(self._folder, str(self._pending))
            names = self._names()
            if len(names) != self._written:
                return False
            files.make_folder(folder.parent, durable=self._durable)
            if self._become(folder):
                return True
            whole = self._rename_each(names, folder)
            if self._durable:
                files.sync_folder(folder)
            return whole

    def close(self) -> None:
        """What was not published goes."""
        if self._writer is not None:
            self._writer.stop()
        if self._flusher is not None:
            self._flusher.shutdown()
        if self._folder is not None:
            os.close(self._folder)
            shutil.rmtree(self._pending, ignore_errors=True)
        self._writer = self._flusher = self._folder = None

    def _begin(self) -> None:
        files.make_folder(self._place, durable=self._durable)
        self._pending.mkdir()
        # one handle from the first file to the sync: it is told of every error in between
        self._folder = os.open(self._pending, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _add(self, name: str, content: bytes) -> None:
        if self._folder is None:
            self._begin()
        if self._told == MANY:
            with suppress(OSError):  # no room for another process: then it is done here
                self._writer = _Writer(self._pending)
        if self._writer is not None:
            self._writer.tell(name, content)
        else:
            self._written += write_file(name, content, folder=self._folder)
        self._told += 1
        if self._durable and self._told % BATCH == 0:
            self._flush_beside()

    def _end(self) -> None:
        """Everything that was told is written."""
        if self._writer is not None and not self._lost:
            try:
                self._written += self._writer.end()
            except FileNotFoundError:
                self._lost = True
            self._writer = None
        for flushed in self._flushed:
            flushed.result()
        self._flushed.clear()

    def _flush_beside(self) -> None:
        if self._folder is None:
            return
        if self._flusher is None:
            self._flusher = ThreadPoolExecutor(1, thread_name_prefix="flush")
        handle, name = self._folder, str(self._pending)
        self._flushed.append(self._flusher.submit(sync_file_system, handle, name))

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._pending)  # noqa: PTH208 - plain names
        except FileNotFoundError:
            return []

    def _become(self, folder: Path) -> bool:
        """The pending folder itself takes the place of one that is absent or empty."""
        with suppress(FileNotFoundError):
            if next(folder.iterdir(), None) is not None:
                return False
        try:
            self._pending.rename(folder)
        except OSError as error:
            if error.errno in _OCCUPIED:
                return False
            raise
        if self._durable:
            files.sync_folder(folder.parent)
        return True

    def _rename_each(self, names: list[str], folder: Path) -> bool:
        target, known = f"{folder}/", set(os.listdir(folder))  # noqa: PTH208
        for name in names:
            if name in known and _is_whole(folder / name) and files.renew(folder / name):
                continue
            try:
                os.rename(name, target + name, src_dir_fd=self._folder)
            except FileNotFoundError:
                if not folder.is_dir():
                    raise files.FolderRemoved from None
                return False
        return True


def _is_whole(path: Path) -> bool:
    """Files named by their hash; what is damaged is written over."""
    expected = parse_name(path.name)
    return expected is None or files.holds(path, expected)


class _Writer:
    """The other process, and how to tell it of files."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-I", "-S", file_writer.__file__, str(folder)]
        self._process = subprocess.Popen(
            command,
            bufsize=file_writer.BUFFER_BYTES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._told = cast("IO[bytes]", self._process.stdin)
        self._answer = cast("IO[bytes]", self._process.stdout)

    def tell(self, name: str, content: bytes) -> None:
        """Raises `OSError`: what ended the other process."""
        try:
            self._told.write(HEAD.pack(len(name), len(content)) + name.encode() + content)
        except BrokenPipeError:
            self.end()
            raise

    def end(self) -> int:
        """How many files it has written. Raises `OSError`: what kept it from it."""
        try:
            with suppress(BrokenPipeError):
                self._told.write(END)
                self._told.flush()
            answer = self._answer.read()
        finally:
            self.stop()
        if len(answer) != OUTCOME.size:
            raise OSError(errno.EIO, "the process that writes files ended before its time")
        count, error = OUTCOME.unpack(answer)
        if error:
            raise OSError(error, os.strerror(error))
        return int(count)

    def stop(self) -> None:
        self._process.kill()
        for pipe in (self._told, self._answer):
            with suppress(BrokenPipeError):
                pipe.close()
        self._process.wait()


def sync_file_system(handle: int, name: str) -> None:
    """Everything written so far to the file system of an open folder reaches the disk."""
    if _LIBC is None or not hasattr(_LIBC, "syncfs"):
        os.sync()
    elif _LIBC.syncfs(handle) != 0:
        raise OSError(ctypes.get_errno(), f"cannot sync the file system of {name}")


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):  # no such thing on this system
        return None


_LIBC = _libc()
