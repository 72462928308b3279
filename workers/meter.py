"""How far a job is, and whether it still is ours: what the work tells, and is told.

The work counts rows and names its phase; the thread that keeps the lease reads both. Once the
job is lost, the next row or phase ends the work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from protocol.errors import Conflict


class JobLost(Conflict):
    """The job was cancelled, or another worker has it."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled, or is another worker's now")


class Meter:
    """Of one job. Phases, in the order they come: fetch, read, merge, execute, commit."""

    def __init__(self) -> None:
        self._lost = threading.Event()
        self._phase, self._rows, self._bytes = "", 0, 0
        self._done, self._total = 0, 0

    def phase(self, name: str) -> None:
        """A new phase begins. Raises `JobLost`."""
        self.check()
        self._phase, self._rows, self._bytes = name, 0, 0

    def step(self, done: int, total: int) -> None:
        """So many parts of the work are done, each with phases of its own. Raises `JobLost`."""
        self.check()
        self._done, self._total = done, total

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, counted. Raises `JobLost`."""
        for batch in batches:
            self.check()
            self._rows += batch.num_rows
            yield batch

    def bytes(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, counted. Raises `JobLost`."""
        for chunk in chunks:
            self.check()
            self._bytes += len(chunk)
            yield chunk

    def check(self) -> None:
        """Raises `JobLost`."""
        if self._lost.is_set():
            raise JobLost

    def lose(self) -> None:
        """The job is not ours any more."""
        self._lost.set()

    def told(self) -> dict[str, Any] | None:
        """How far the work is, None before it began."""
        if not self._phase:
            return None
        counts = {"rows": self._rows, "bytes": self._bytes}
        told = {"phase": self._phase, **{name: count for name, count in counts.items() if count}}
        return {**told, "done": self._done, "total": self._total} if self._total else told
