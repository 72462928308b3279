"""Reads heads directly from SQLite, for callers that must not wait.

One prepared statement takes some microseconds. Its result is exact, whichever process moved the
head. If the database cannot answer immediately, the caller uses the ordinary way.
"""

from __future__ import annotations

import contextlib
import sqlite3

import sqlalchemy as sa

from odf_protocol.identity import DatasetId
from odf_protocol.multihash import Multihash

from ..objects.layout import HEAD

_QUERY = "SELECT hash FROM refs WHERE dataset = ? AND name = ?"


class SqliteHeads:
    """A private connection, opened at the first use, for one thread."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def of(cls, engine: sa.Engine) -> SqliteHeads | None:
        """Return None if the engine uses another database than SQLite."""
        if engine.dialect.name != "sqlite" or not engine.url.database:
            return None
        return cls(engine.url.database)

    def head(self, dataset: DatasetId) -> Multihash | None:
        """Return the hash in `head`; None if there is none, or if the database is busy."""
        try:
            rows = self._open().execute(_QUERY, (dataset.key, HEAD)).fetchall()
        except sqlite3.Error:
            self.close()
            return None
        return Multihash.decode(rows[0][0]) if rows else None

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(self._database, timeout=0, isolation_level=None)
        return self._connection
