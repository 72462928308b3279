"""The progress of a job, and the signal to end it.

The work counts rows and sets its phase; the thread that extends the lease reads both. Once the job
is lost, or beyond its budget, the next row or phase raises an error that ends the work.

The content of a file to read: on the disk, or in memory.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from odf_protocol.errors import Conflict, NodeError

COMMIT = "commit"


class JobLost(Conflict):
    """The job was cancelled, or another worker has claimed it."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled, or is another worker's now", retryable=True)


class JobProgress:
    """Progress of one job. Phases, in their order: fetch, read, merge, verify, execute, commit."""

    def __init__(self) -> None:
        self._end: NodeError | None = None
        self.began: float | None = None
        """Time at which the work began, by the monotonic clock."""
        self._phase, self._rows, self._bytes = "", 0, 0
        self._done, self._total = 0, 0
        self._stop: Callable[[], None] | None = None
        self._stopping = threading.Lock()

    def stops(self, stop: Callable[[], None]) -> None:
        """Set the function that stops the current part of the work, replacing the previous one. Any
        thread may call it, once the job is lost or ended."""
        with self._stopping:
            self._stop = stop
        if self._end is not None:
            stop()

    def phase(self, name: str) -> None:
        """Begin a new phase. Raises the same errors as `check`."""
        self.check()
        self.begin()
        self._phase, self._rows, self._bytes = name, 0, 0

    def begin(self) -> None:
        """Record that the work on the job begins, unless it has begun."""
        if self.began is None:
            self.began = time.monotonic()

    @property
    def commits(self) -> bool:
        """Whether only the commit remains."""
        return self._phase == COMMIT

    def step(self, done: int, total: int) -> None:
        """Set how many parts of the work are done; each has its own phases. Raises the same errors
        as `check`."""
        self.check()
        self._done, self._total = done, total

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, counting their rows. Raises the same errors as `check`."""
        for batch in batches:
            self.check()
            self._rows += batch.num_rows
            yield batch

    def passed(self, count: int) -> None:
        """Count further rows. Raises the same errors as `check`."""
        self.check()
        self._rows += count

    def bytes(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks, counting their bytes. Raises the same errors as `check`."""
        for chunk in chunks:
            self.check()
            self._bytes += len(chunk)
            yield chunk

    def check(self) -> None:
        """Raise the error that ended the job, if any: `JobLost`, `JobOverBudget`."""
        if self._end is not None:
            raise self._end

    def lose(self) -> None:
        """End the work with `JobLost`."""
        self.end(JobLost())

    def end(self, error: NodeError) -> None:
        """Make the work end with this error."""
        self._end = error
        with self._stopping:
            stop = self._stop
        if stop is not None:
            stop()

    def told(self) -> dict[str, Any] | None:
        """Return the progress as a document, or None before the first phase."""
        if not self._phase:
            return None
        counts = {"rows": self._rows, "bytes": self._bytes}
        told = {"phase": self._phase, **{name: count for name, count in counts.items() if count}}
        return {**told, "done": self._done, "total": self._total} if self._total else told


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A small file in memory: its bytes are sent with the task that reads them."""

    content: bytes = field(repr=False)


Content = Path | Enclosed


def opened(content: Content) -> BinaryIO:
    """Open the content for reading, from its beginning."""
    return io.BytesIO(content.content) if isinstance(content, Enclosed) else content.open("rb")


def size_of(content: Content) -> int:
    """Return the number of bytes."""
    return len(content.content) if isinstance(content, Enclosed) else content.stat().st_size


def mapped(content: Content) -> pa.NativeFile:
    """Open the content as memory, as Arrow reads it."""
    if isinstance(content, Enclosed):
        return pa.BufferReader(content.content)
    return pa.memory_map(str(content))
