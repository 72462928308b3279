"""Schedules and variables in memory: for tests and throw-away nodes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from protocol.identity import DatasetId
from protocol.instant import Instant

from ..jobs.memory import MemoryJobQueue
from ..values import JobId, JobSpec, Schedule, Variable


class MemorySchedules:
    """`Schedules` in memory."""

    def __init__(self, jobs: MemoryJobQueue) -> None:
        self._jobs, self._lock = jobs, threading.Lock()
        self._kept: dict[str, Schedule] = {}

    def put(self, schedule: Schedule) -> None:
        with self._lock:
            self._kept[schedule.id] = schedule

    def find(self, schedule: str) -> Schedule | None:
        return self._kept.get(schedule)

    def of_dataset(self, dataset: DatasetId) -> Sequence[Schedule]:
        found = [each for each in self._kept.values() if each.dataset == dataset]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    def remove(self, schedule: str) -> bool:
        with self._lock:
            return self._kept.pop(schedule, None) is not None

    def due(self, now: Instant, *, limit: int = 100) -> Sequence[Schedule]:
        with self._lock:
            timed = [(each.next_at, each) for each in self._kept.values() if each.next_at]
        found = sorted((at, each.id, each) for at, each in timed if at <= now)
        return [each for _, _, each in found[:limit]]

    def next_due(self) -> Instant | None:
        with self._lock:
            return min((each.next_at for each in self._kept.values() if each.next_at), default=None)

    def start(
        self, schedule: Schedule, spec: JobSpec, *, now: Instant, next_at: Instant | None
    ) -> JobId | None:
        with self._lock:
            kept = self._kept.get(schedule.id)
            if kept is None or kept.next_at is None or kept.next_at != schedule.next_at:
                return None
            self._kept[schedule.id] = replace(kept, last_at=now, next_at=next_at)
            return self._jobs.submit(spec)


class MemoryVariables:
    """`Variables` in memory."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Variable] = {}

    def put(self, owner: str, variable: Variable) -> None:
        self._kept[owner, variable.name] = variable

    def of_owner(self, owner: str) -> Mapping[str, Variable]:
        found = {name: kept for (of, name), kept in self._kept.items() if of == owner}
        return dict(sorted(found.items()))

    def remove(self, owner: str, name: str) -> bool:
        return self._kept.pop((owner, name), None) is not None

    def owners(self) -> Sequence[str]:
        return sorted({owner for owner, _ in self._kept})
