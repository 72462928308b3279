"""How far a job is, and whether it still is ours: what the work tells, and is told.

The work counts rows and names its phase; the thread that keeps the lease reads both. Once the
job is lost, or beyond its budget, the next row or phase ends the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from odf_node.protocol.errors import Conflict, NodeError

COMMIT = "commit"


class JobLost(Conflict):
    """The job was cancelled, or another worker has it."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled, or is another worker's now", retryable=True)


class JobProgress:
    """Of one job. Phases, in the order they come: fetch, read, merge, verify, execute, commit."""

    def __init__(self) -> None:
        self._end: NodeError | None = None
        self.began: float | None = None
        """When the work on it began, by the clock that only goes on."""
        self._phase, self._rows, self._bytes = "", 0, 0
        self._done, self._total = 0, 0
        self._stop: Callable[[], None] | None = None
        self._stopping = threading.Lock()

    def stops(self, stop: Callable[[], None]) -> None:
        """How the part of the work that is under way is stopped, by any thread, once the job is not
        ours any more; it takes the place of the one before."""
        with self._stopping:
            self._stop = stop
        if self._end is not None:
            stop()

    def phase(self, name: str) -> None:
        """A new phase begins. Raises as `check`."""
        self.check()
        self.begin()
        self._phase, self._rows, self._bytes = name, 0, 0

    def begin(self) -> None:
        """The work on the job begins, unless it has."""
        if self.began is None:
            self.began = time.monotonic()

    @property
    def commits(self) -> bool:
        """Whether nothing is left but the commit."""
        return self._phase == COMMIT

    def step(self, done: int, total: int) -> None:
        """So many parts of the work are done, each with phases of its own. Raises as `check`."""
        self.check()
        self._done, self._total = done, total

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, counted. Raises as `check`."""
        for batch in batches:
            self.check()
            self._rows += batch.num_rows
            yield batch

    def passed(self, count: int) -> None:
        """So many more rows. Raises as `check`."""
        self.check()
        self._rows += count

    def bytes(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, counted. Raises as `check`."""
        for chunk in chunks:
            self.check()
            self._bytes += len(chunk)
            yield chunk

    def check(self) -> None:
        """Raises what the job was ended with: `JobLost`, `JobOverBudget`."""
        if self._end is not None:
            raise self._end

    def lose(self) -> None:
        """The job is not ours any more."""
        self.end(JobLost())

    def end(self, error: NodeError) -> None:
        """The work is to end with this."""
        self._end = error
        with self._stopping:
            stop = self._stop
        if stop is not None:
            stop()

    def told(self) -> dict[str, Any] | None:
        """How far the work is, None before it began."""
        if not self._phase:
            return None
        counts = {"rows": self._rows, "bytes": self._bytes}
        told = {"phase": self._phase, **{name: count for name, count in counts.items() if count}}
        return {**told, "done": self._done, "total": self._total} if self._total else told
