"""Files that stages read and write: on the disk of the worker, or through the node's bucket.

A stage is given a file by its path where it sees the worker's disk, else as a loan: a link and the
hash of what is there. What it writes it delivers the same way.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext

from odf_node.storage.datasets.integrity.hashing import hash_of_stream
from odf_node.storage.datasets.integrity.identity import Identity, identity_of_file

from ..engines.spark.exchange import ExchangeFault, Loan, fetch, give

LOANS = "odf-loans"
"""Folder of an executor for files that were lent to it."""
LOAN_S = 3600.0
"""Seconds for which an executor keeps a loan."""
File = Path | Loan
_hashed: dict[str, Identity] = {}
"""Loans that this process has hashed, as they were then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outbox:
    """Where stages put the files that they write: a folder, or links by partition and attempt."""

    folder: Path
    links: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A file that a stage wrote: where it lies, or its name in the exchange and its hash."""

    path: Path
    name: str | None = None
    hash: str | None = None


def at_hand(file: File) -> Path:
    """The file on this machine, fetched if it is not there yet.

    Raises:
        ExchangeFault: the bucket does not answer, or has other bytes.
    """
    if isinstance(file, Path):
        return file
    folder = _own_folder()
    path = folder / file.hash
    if path.exists() and _is_whole(path, file):
        return path
    _forget(folder)
    pending = folder / f"{file.hash}-{secrets.token_hex(8)}"
    fetch(file, pending)
    pending.replace(path)
    _hashed[file.hash] = identity_of_file(path.stat())
    return path


def _own_folder() -> Path:
    """Of this account alone: others of the machine could put files under the names of loans."""
    folder = Path(tempfile.gettempdir()) / f"{LOANS}-{os.getuid()}"
    folder.mkdir(exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise ExchangeFault(f"{folder} belongs to another account")
    return folder


def _is_whole(path: Path, file: Loan) -> bool:
    """Whether the file is what was lent, by its hash or by that it was hashed and not touched."""
    identity = identity_of_file(path.stat())
    if _hashed.get(file.hash) == identity:
        return True
    with path.open("rb") as content:
        if str(hash_of_stream(content)) != file.hash:
            return False
    _hashed[file.hash] = identity
    return True


def _forget(folder: Path) -> None:
    """Remove what was fetched a while ago."""
    for each in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - each.stat().st_mtime > LOAN_S:
                each.unlink()
                _hashed.pop(each.name, None)


def workplace(outbox: Outbox) -> Path:
    """A folder in which a stage may write a file before it is delivered."""
    return outbox.folder if outbox.links is None else Path(tempfile.gettempdir())


def deliver(path: Path, outbox: Outbox) -> Delivered:
    """A file that is whole. Raises `ExchangeFault`."""
    if outbox.links is None:
        return Delivered(path=path)
    task = TaskContext.get()
    if task is None:
        raise AssertionError("unreachable: links are for tasks")
    name = f"{task.partitionId()}-{task.attemptNumber()}"
    found = give(path, outbox.links[name])
    path.unlink()
    return Delivered(path=outbox.folder / f"{name}-{os.getpid()}", name=name, hash=str(found))
