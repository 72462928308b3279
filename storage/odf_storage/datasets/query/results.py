"""Results of query jobs as files, a folder for each account; old ones are collected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from odf_protocol.instant import Instant

from ...stores.keyed.below import Below
from ...stores.ports import KeyedStore

FOLDER = "query-results"
"""Name of the folder, beside the folders of projections of datasets."""


class QueryResults:
    """The results of a node, in the store of projections."""

    def __init__(self, projections: KeyedStore) -> None:
        self._all, self._store = projections, Below(projections, FOLDER)

    def put(self, owner: str, job: str, chunks: Iterable[bytes], *, most: int) -> None:
        """Store a result; keep only the newest `most` results of the account."""
        self._store.put(_key(owner, job), chunks)
        kept = sorted(self._store.list(owner), key=lambda info: info.modified, reverse=True)
        self._store.delete([info.key for info in kept[most:]])

    def open(self, owner: str, job: str) -> BinaryIO:
        """Open a result. Raise `KeyNotFound` if it was collected."""
        return self._store.open(_key(owner, job))

    def collect(self, *, before: Instant) -> int:
        """Remove the results written before that time; return their number."""
        old = [info.key for info in self._all.list(FOLDER) if info.modified < before]
        self._all.delete(old)
        return len(old)


def _key(owner: str, job: str) -> str:
    return f"{owner}/{job}"
