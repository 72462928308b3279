"""Authors in memory: for tests and throw-away nodes."""

from __future__ import annotations

from collections.abc import Mapping

from protocol.identity import DatasetId
from protocol.multihash import Multihash

from ..index.memory import IndexTables
from .values import Author


class MemoryDefinitionAuthors:
    """`DefinitionAuthors` beside the index it speaks of."""

    def __init__(self, tables: IndexTables) -> None:
        self._tables = tables

    def put(self, dataset: DatasetId, definition: Multihash, author: Author) -> None:
        with self._tables.lock:
            self._tables.entry(dataset)
            self._tables.authors.setdefault(dataset, {})[definition] = author

    def of_dataset(self, dataset: DatasetId) -> Mapping[Multihash, Author]:
        with self._tables.lock:
            return dict(self._tables.authors.get(dataset, {}))
