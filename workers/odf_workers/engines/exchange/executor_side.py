"""The executors' side: fetch files that the worker lends, and deliver files that tasks write."""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from odf_protocol.multihash import Multihash
from odf_storage.datasets.integrity.identity import Identity, identity_of_file
from odf_storage.stores.ports.values import StoredFile

from .files import (
    Delivered,
    ExchangeFault,
    File,
    Loan,
    Outbox,
    Span,
    name_of,
    pieces,
)
from .links import download, upload

LOANS = "odf-loans"
"""Prefix of the name of an executor's folder for lent files."""
LOAN_S = 3600.0
"""Seconds for which an executor keeps a loan."""
_LOCK = ".lock"
_hashed: dict[str, Identity] = {}
"""Identity of each lent file, by name, when this process last checked its bytes."""
_attempt: str | None = None
"""Name of the files that the running task delivers. A process runs one task at a time."""


def begin(partition: int, attempt: int) -> None:
    """Begin an attempt at a partition, whose files get the name of that attempt."""
    global _attempt
    _attempt = name_of(partition, attempt)


def at_hand(file: File) -> Path:
    """Return the path of the file on this machine, after fetching it if necessary. Of a loan with
    spans, only these bytes are there, at their positions.

    Raises:
        ExchangeFault: the bucket does not respond, or has other bytes.
    """
    if isinstance(file, Path):
        return file
    folder = _own_folder()
    path = folder / file.name
    with _locked(folder / f"{file.name}{_LOCK}"):  # so that concurrent tasks fetch it only once
        if path.exists() and _is_whole(path, file):
            return path
        _forget(folder)
        _fetch(file, folder, path)
    return path


def workplace(outbox: Outbox) -> Path:
    """Return a folder in which a task may write a file before it delivers the file."""
    return outbox.folder if outbox.links is None else Path(tempfile.gettempdir())


def deliver(path: Path, outbox: Outbox) -> Delivered:
    """Hand a finished file to the worker. On another machine, upload it and delete it from this
    disk. Raise `ExchangeFault`."""
    if outbox.links is None:
        return Delivered(path=path)
    if (name := _attempt) is None:
        raise AssertionError("unreachable: links are for tasks")
    try:
        content, etag = upload(path, outbox.links[name])
    finally:
        path.unlink()
    stored = StoredFile(f"{outbox.bucket_folder}/{name}", content, etag)
    return Delivered(path=outbox.folder / name, stored=stored)


def _fetch(file: Loan, folder: Path, path: Path) -> None:
    pending = folder / f"{file.name}-{secrets.token_hex(8)}"
    try:
        if str(download(file.link, pending, file.spans)) != file.hash:
            raise ExchangeFault(f"the bucket has other bytes than those of {file.hash}")
        pending.replace(path)
    finally:
        pending.unlink(missing_ok=True)
    _hashed[file.name] = identity_of_file(path.stat())


def _own_folder() -> Path:
    """Return a folder that only this account may use. In a shared one, other accounts could put
    files under the names of loans."""
    folder = Path(tempfile.gettempdir()) / f"{LOANS}-{os.getuid()}"
    folder.mkdir(exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise ExchangeFault(f"{folder} belongs to another account")
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock of this machine's tasks during the block; it is released if the process ends."""
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_whole(path: Path, file: Loan) -> bool:
    """Return whether the file has the loan's hash. Skip the hashing if this process checked the
    file before and it has not changed since."""
    identity = identity_of_file(path.stat())
    if _hashed.get(file.name) == identity:
        return True
    spans = file.spans or (Span(0, path.stat().st_size),)
    if str(Multihash.of_chunks(pieces(path, spans))) != file.hash:
        return False
    _hashed[file.name] = identity
    return True


def _forget(folder: Path) -> None:
    """Remove files fetched more than `LOAN_S` ago. If this removes a lock for which another task
    waits, that task fetches the file again."""
    for each in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - each.stat().st_mtime > LOAN_S:
                each.unlink()
                _hashed.pop(each.name, None)
