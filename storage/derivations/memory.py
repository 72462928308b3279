"""Derivations in memory: for tests and throw-away nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from protocol.identity import DatasetId
from protocol.instant import Instant

from ..index.memory import IndexTables
from ..values import JobId
from .values import Derivation, Problem


class MemoryDerivationStore:
    """`DerivationStore` beside the index it speaks of."""

    def __init__(self, tables: IndexTables) -> None:
        self._tables = tables
        self._rows: dict[DatasetId, Derivation] = {}
        self._place = 0

    def place(self) -> int:
        with self._tables.lock:
            return self._place

    def found_moves(
        self,
        *,
        expected: int,
        place: int,
        due: Mapping[DatasetId, Instant],
        resumed: Collection[DatasetId] = (),
    ) -> bool:
        with self._tables.lock:
            if self._place != expected:
                return False
            self._place = place
            for dataset in resumed:
                self._change(dataset, paused=False, attempts=0)
            for dataset, when in due.items():
                if dataset in self._tables.entries:
                    row = self._row(dataset)
                    sooner = when if row.due_at is None else min(row.due_at, when)
                    self._rows[dataset] = replace(row, due_at=sooner, version=row.version + 1)
            return True

    def find(self, dataset: DatasetId) -> Derivation | None:
        with self._tables.lock:
            return self._rows.get(dataset) if dataset in self._tables.entries else None

    def due(self, *, now: Instant, limit: int = 100) -> Sequence[Derivation]:
        with self._tables.lock:
            found = [
                row
                for row in self._here()
                if row.due_at is not None
                and row.due_at <= now
                and row.job is None
                and not row.paused
                and row.wanted is not False
            ]
        found.sort(key=lambda row: (row.due_at, row.dataset))
        return found[:limit]

    def at_work(self) -> Sequence[Derivation]:
        with self._tables.lock:
            return [row for row in self._here() if row.job is not None]

    def submitted(self, dataset: DatasetId, *, version: int, job: JobId | None) -> None:
        with self._tables.lock:
            row = self._rows.get(dataset)
            if row is not None:
                due_at = None if row.version == version else row.due_at
                self._rows[dataset] = replace(row, job=job, due_at=due_at)

    def ended(
        self,
        dataset: DatasetId,
        *,
        job: JobId | None,
        problem: Problem | None = None,
        paused: bool = False,
        retry_at: Instant | None = None,
    ) -> None:
        with self._tables.lock:
            row = self._rows.get(dataset)
            if row is None or row.job != job:
                return
            due_at = row.due_at
            if retry_at is not None:
                due_at = retry_at if due_at is None else max(due_at, retry_at)
            self._rows[dataset] = replace(
                row,
                job=None,
                problem=problem,
                paused=paused,
                attempts=0 if problem is None else row.attempts + 1,
                due_at=due_at,
            )

    def decide(self, dataset: DatasetId, *, wanted: bool) -> None:
        with self._tables.lock:
            if dataset in self._tables.entries:
                self._rows[dataset] = replace(self._row(dataset), wanted=wanted)

    def resume(self, dataset: DatasetId, *, job: JobId) -> None:
        with self._tables.lock:
            if dataset in self._tables.entries:
                row = self._row(dataset)
                self._rows[dataset] = replace(row, wanted=True, paused=False, attempts=0, job=job)

    def _row(self, dataset: DatasetId) -> Derivation:
        return self._rows.get(dataset, Derivation(dataset=dataset))

    def _here(self) -> list[Derivation]:
        return [row for row in self._rows.values() if row.dataset in self._tables.entries]

    def _change(self, dataset: DatasetId, **values: Any) -> None:
        if (row := self._rows.get(dataset)) is not None:
            self._rows[dataset] = replace(row, **values)
