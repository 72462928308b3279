"""Locks by dataset, for changes of a whole dataset, across threads and processes.

Commits need no lock, because the head's compare-and-swap decides (and refuses a dataset that was
created again since). But creating or removing a dataset also changes objects, which no transaction
covers: without a lock, a removal could delete objects that a concurrent creation of the same
dataset has just put. A lock ends with its process.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from odf_protocol.identity import DatasetId

if TYPE_CHECKING:
    import sqlalchemy as sa

SLOTS = 256
"""Number of lock files; several datasets may share one."""


class Locks(Protocol):
    """Locks by dataset. A caller must not hold two at once."""

    def hold(self, dataset: DatasetId) -> AbstractContextManager[None]:
        """Acquire the lock of the dataset for the block, waiting for other holders."""


class FileLocks:
    """`Locks` as files in one folder, for nodes on one machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, dataset: DatasetId) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{_slot(dataset):02x}").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class PostgresLocks:
    """`Locks` of the PostgreSQL server, each on a connection of its own.

    The engine should have no pool, since callers may have exhausted a pool when they lock. A lock
    ends with its transaction, so it also works through connection poolers.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @contextmanager
    def hold(self, dataset: DatasetId) -> Iterator[None]:
        import sqlalchemy as sa  # whoever locks files only needs no database

        key = int.from_bytes(hashlib.sha256(dataset.key).digest()[:8], signed=True)
        with self._engine.connect() as connection:  # leaving the block rolls back
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))
            yield


def locks_of(engine: sa.Engine) -> Locks:
    """Return the kind of locks that suits the database."""
    if engine.dialect.name == "postgresql":
        return PostgresLocks(engine)
    return FileLocks(Path(f"{engine.url.database}-locks"))


def _slot(dataset: DatasetId) -> int:
    return hashlib.sha256(dataset.key).digest()[0] % SLOTS
