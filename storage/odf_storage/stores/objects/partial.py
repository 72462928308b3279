"""Uploads that can be interrupted and resumed, in a file beside the path of the object.

A partial upload is a pending file with a fixed name. Like every pending file, readers ignore it,
and it is removed if nothing was added for a long time. Each call hashes the stored bytes again
before it adds more, so that the hash covers exactly what is on the disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from odf_protocol.multihash import SHA3_256, HashMismatch, Multihash

from ..ports.errors import OffsetMismatch, UploadBusy
from ..ports.values import AccountId, ObjectKey
from . import files
from .claims import Claims, Judge
from .layout import PENDING_PREFIX

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
                raise OffsetMismatch(offset, size)
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
                raise UploadBusy from None
            if os.fstat(stream.fileno()).st_nlink == 0 or not _is(path, stream):
                continue  # completed or removed since it was opened
            yield stream
            return


def _is(path: Path, stream: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False
