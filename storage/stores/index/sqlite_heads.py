"""Heads straight from SQLite, for callers that may not wait: one prepared statement, some
microseconds. What it says is exact, whichever process moved the head; when it cannot say at
once, the caller takes the long way.
"""

from __future__ import annotations

import contextlib
import sqlite3

import sqlalchemy as sa

from odf_node.protocol.identity import DatasetId
from odf_node.protocol.multihash import Multihash

from ..objects.layout import HEAD

_QUERY = "SELECT hash FROM refs WHERE dataset = ? AND name = ?"


class SqliteHeads:
    """A connection of its own, opened when first needed, for use in one thread."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def of(cls, engine: sa.Engine) -> SqliteHeads | None:
        """None for any other database."""
        if engine.dialect.name != "sqlite" or not engine.url.database:
            return None
        return cls(engine.url.database)

    def head(self, dataset: DatasetId) -> Multihash | None:
        """Where `head` points; None if there is none, or the database is busy."""
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
