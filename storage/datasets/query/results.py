"""Rows of query jobs as files, a folder for each account; kept for a while and then collected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from odf_node.protocol.instant import Instant

from ...stores.keyed.below import Below
from ...stores.ports import KeyedStore

FOLDER = "query-results"
"""Beside the folders of what was made of datasets."""


class QueryResults:
    """The results of a node, beside what is made of datasets for readers."""

    def __init__(self, projections: KeyedStore) -> None:
        self._all, self._store = projections, Below(projections, FOLDER)

    def put(self, owner: str, job: str, chunks: Iterable[bytes], *, most: int) -> None:
        """Keep a result; the oldest of the account go beyond `most`."""
        self._store.put(_key(owner, job), chunks)
        kept = sorted(self._store.list(owner), key=lambda info: info.modified, reverse=True)
        self._store.delete([info.key for info in kept[most:]])

    def open(self, owner: str, job: str) -> BinaryIO:
        """Raises `KeyNotFound`: it was collected."""
        return self._store.open(_key(owner, job))

    def collect(self, *, before: Instant) -> int:
        """Remove those that were written before then; returns how many."""
        old = [info.key for info in self._all.list(FOLDER) if info.modified < before]
        self._all.delete(old)
        return len(old)


def _key(owner: str, job: str) -> str:
    return f"{owner}/{job}"
