"""Reports about stages that ran, for the metrics of the worker: once for each run, whatever the
number of posts in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ...partitions.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """The size of a batch: rows that were read, and bytes. A verification counts no rows."""

    rows: int = 0
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesRan:
    """One run of stages: of a batch, of batches that shared a job of Spark, or of a
    verification."""

    usage: Usage
    seconds: float
    batches: Sequence[BatchSize]
    """Batches that ran to their end; none if the run failed."""


OnStages = Callable[[StagesRan], None]


class Used(Protocol):
    """Where stages ran."""

    @property
    def usage(self) -> Usage: ...


def unreported(ran: StagesRan) -> None:
    """Ignore the report."""


@contextmanager
def reported(on_stages: OnStages, used: Used) -> Iterator[list[BatchSize]]:
    """Report the run of stages in the block when it ends or fails. The block appends the batches
    that ran to their end."""
    began = time.monotonic()
    batches: list[BatchSize] = []
    try:
        yield batches
    finally:
        seconds = time.monotonic() - began
        on_stages(StagesRan(usage=used.usage, seconds=seconds, batches=batches))
