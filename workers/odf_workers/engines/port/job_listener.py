"""Listeners that keep the warnings of a query and stop it once this worker has lost the job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ...runtime.progress import JobProgress
from .port import EngineListener


@dataclass(slots=True)
class Heard(EngineListener):
    """Listener of a query that belongs to the job of `job_progress`."""

    job_progress: JobProgress = field(default_factory=JobProgress)
    warnings: list[str] = field(default_factory=list)
    late_rows: int = 0

    def progress(self) -> None:
        self.job_progress.check()

    def warning(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def late(self, rows: int) -> None:
        self.late_rows += rows

    def stops(self, stop: Callable[[], None]) -> None:
        self.job_progress.stops(stop)


@dataclass(slots=True)
class HeardOfAll(EngineListener):
    """Listener of work for several jobs. The work stops once this worker has lost all of them."""

    jobs: Sequence[JobProgress]

    def progress(self) -> None:
        for job in self.jobs:
            job.check()

    def stops(self, stop: Callable[[], None]) -> None:
        left = set(range(len(self.jobs)))

        def ended(number: int) -> None:
            left.discard(number)
            if not left:
                stop()

        for number, job in enumerate(self.jobs):
            job.stops(partial(ended, number))
