"""Mirrors in memory: for tests and throw-away nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from protocol.identity import DatasetId

from ..index.memory import IndexTables
from .values import Mirror, MirrorStatus


class MemoryMirrorStore:
    """`MirrorStore` beside the index it speaks of."""

    def __init__(self, tables: IndexTables) -> None:
        self._tables = tables

    def put(self, mirror: Mirror) -> None:
        with self._tables.lock:
            self._tables.entry(mirror.dataset)
            self._tables.mirrors[mirror.dataset] = mirror

    def find(self, dataset: DatasetId) -> Mirror | None:
        with self._tables.lock:
            return self._tables.mirrors.get(dataset)

    def among(self, datasets: Collection[DatasetId]) -> Collection[DatasetId]:
        with self._tables.lock:
            return {dataset for dataset in datasets if dataset in self._tables.mirrors}

    def note(self, dataset: DatasetId, status: MirrorStatus) -> None:
        with self._tables.lock:
            known = self._tables.mirrors.get(dataset)
            if known is not None:
                self._tables.mirrors[dataset] = replace(known, status=status)

    def remove(self, dataset: DatasetId) -> None:
        with self._tables.lock:
            self._tables.mirrors.pop(dataset, None)
