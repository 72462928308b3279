"""A query of a job: what its engine says is kept, and it ends once the job is not ours any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..meter import Meter
from .port import Listener


@dataclass(slots=True)
class Heard(Listener):
    """Hears of a query of the job that `meter` is of."""

    meter: Meter = field(default_factory=Meter)
    warnings: list[str] = field(default_factory=list)

    def progress(self) -> None:
        self.meter.check()

    def warning(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def stops(self, stop: Callable[[], None]) -> None:
        self.meter.stops(stop)
