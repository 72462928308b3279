"""One at a time: what changes a dataset as a whole, across threads and processes.

Commits need no lock, the head's compare-and-swap decides (and refuses a dataset that was made
again since). Creating and removing a dataset
touch its objects as well, where no transaction reaches: without a lock, a removal could take
away what a creation of the same dataset has just put. A lock ends with its process.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from odf_node.protocol.identity import DatasetId

SLOTS = 256
"""Lock files: datasets may share one."""


class Locks(Protocol):
    """Locks by dataset. Holding two at once is not foreseen."""

    def hold(self, dataset: DatasetId) -> AbstractContextManager[None]:
        """Wait until nobody else holds the dataset, and keep others waiting."""


class FileLocks:
    """`Locks` in files of one folder, for nodes on one machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def hold(self, dataset: DatasetId) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{_slot(dataset):02x}").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class PostgresLocks:
    """`Locks` of the server, each on a connection of its own: the pool may be all in use.

    A lock ends with its transaction, so that poolers between us and the server keep it whole.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = sa.create_engine(engine.url, poolclass=sa.NullPool)

    @contextmanager
    def hold(self, dataset: DatasetId) -> Iterator[None]:
        key = int.from_bytes(hashlib.sha256(dataset.key).digest()[:8], signed=True)
        with self._engine.connect() as connection:  # rolls back at the end
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))
            yield


def locks_of(engine: sa.Engine) -> Locks:
    """The locks that fit a database."""
    if engine.dialect.name == "postgresql":
        return PostgresLocks(engine)
    return FileLocks(Path(f"{engine.url.database}-locks"))


def _slot(dataset: DatasetId) -> int:
    return hashlib.sha256(dataset.key).digest()[0] % SLOTS
